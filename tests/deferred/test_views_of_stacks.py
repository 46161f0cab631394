"""Stacks within samples (the frames of a clip), stacks of such stacks, and views of stacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torch.utils.data import default_collate

import headrace as hr
from deferred.test_own_code import Opens, paths
from deferred.test_stacks import counted, image_of, natively, stacked
from deferred.test_tensor_ops import MEAN, STD, WORKERS, batches, compared, opened, same

__all__ = ["paths"]  # a fixture

# ---- of a batch ----------------------------------------------------------------------------------

LAST = torch.channels_last
VIEWED: dict[str, Callable[[Any], Any]] = {
    "rows of pixels": lambda x: x.permute(0, 2, 3, 1),
    "rows of pixels in rows": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "channels last": lambda x: (x.contiguous(memory_format=LAST), x.to(memory_format=LAST)),
    "doubles with channels last": lambda x: x.to(torch.float64, memory_format=LAST) * 2,
    "a copy with channels last": lambda x: (x.clone(memory_format=LAST), x),
    "one of them": lambda x: x[0],
    "one of them, and all": lambda x: (x[1] * 2, x, x[:, 0]),
    "blue first": lambda x: (x[:, [2, 1, 0]], x.flip(1)),
    "selected": lambda x: (
        x.index_select(1, torch.tensor([2, 1, 0])),
        torch.index_select(x, 0, torch.arange(len(x)).flip(0)) * 0.3,
    ),
    "one axis": lambda x: (x.flatten(), x.flatten(1), x.view(len(x), -1)),
    "more axes": lambda x: (x[:, None], x.unsqueeze(0), x.repeat(2, 1, 1, 1)),
    "each": lambda x: [*x],
    "by unbind": lambda x: (x.unbind(1), torch.unbind(x * 2)),
    "in two": lambda x: (x.chunk(2), torch.chunk(x, 2, dim=-1)),
    "in parts": lambda x: (x.split(2), torch.split(x, [1, 2], dim=1), x.split(1, 0)),
    "of bytes": lambda x: (x / 255).permute(0, 2, 3, 1),
    "normalised": lambda x: ((x - MEAN) / STD).flip(-1),
    "in place": lambda x: (x.mul_(2), x[0]),
}


@WORKERS
@pytest.mark.parametrize("what", VIEWED)
def test_views_and_layouts_of_a_batch_are_native_with_torchs_bytes(
    paths: list[str], what: str, workers: int
) -> None:
    natively(Opens(paths[:6], image_of("floats")), stacked(VIEWED[what]), workers)


JOINED: dict[str, Callable[[list[Any]], Any]] = {
    "stacks": lambda xs: torch.cat([torch.stack(xs), torch.stack(xs[::-1])]),
    "a stack and one": lambda xs: torch.cat([torch.stack(xs[:1]), xs[1][None]]),
    "a stack and a tensor": lambda xs: torch.cat([torch.stack(xs), torch.ones(3, 3, 17, 20)]),
    "stacks of stacks": lambda xs: torch.cat([torch.stack([torch.stack(xs)] * 2)] * 2),
}


@WORKERS
@pytest.mark.parametrize("what", JOINED)
def test_stacks_concatenated_along_their_first_axis_are_one_stack(
    paths: list[str], what: str, workers: int
) -> None:
    natively(Opens(paths[:6], image_of("floats")), counted(JOINED[what]), workers)


# ---- of a sample ---------------------------------------------------------------------------------

TEN = tv.Compose(
    [
        tv.TenCrop(16),
        tv.Lambda(lambda crops: torch.stack([tv.ToTensor()(crop) for crop in crops])),
        tv.Lambda(lambda crops: torch.stack([tv.Normalize(0.4, 0.2)(crop) for crop in crops])),
    ]
)
SPATIAL = tv.Compose([tv.CenterCrop(15), tv.ToTensor(), tv.Normalize(0.4, 0.2)])


def frames(path: str) -> list[Any]:
    """The frames of a clip, each shifted by a pixel."""
    return [opened(path).crop((shift, 0, 16 + shift, 16)) for shift in range(4)]


def clip(path: str) -> Any:
    """The layout of programs for video: channels first, then time."""
    return torch.stack([SPATIAL(frame) for frame in frames(path)], 0).permute(1, 0, 2, 3)


def clip_of_bytes(path: str) -> Any:
    return torch.stack([F.pil_to_tensor(frame) for frame in frames(path)]).float() / 255


def grey(path: str) -> Any:
    image = F.to_tensor(opened(path).convert("L"))
    return torch.cat([image, image, image], 0)


def half_of_python(path: str) -> Any:
    made = [F.to_tensor(frame) for frame in frames(path)]
    return torch.stack([*made[:2], torch.full((3, 16, 16), 0.5), made[3] * 2]) - 0.1


SAMPLES: dict[str, Callable[[str], Any]] = {
    "a clip": clip,
    "a clip, in rows": lambda path: clip(path).contiguous(),
    "a clip with time first": lambda path: torch.stack([SPATIAL(one) for one in frames(path)]),
    "a clip of bytes": clip_of_bytes,
    "a clip with an axis more": lambda path: clip_of_bytes(path)[None],
    "some frames": lambda path: clip_of_bytes(path)[[3, 1, 1]],
    "two parts of a clip": lambda path: clip(path).chunk(2, dim=1),
    "a clip and a frame of it": lambda path: ((x := clip_of_bytes(path)), x[0], x[1:, 0]),
    "ten crops": lambda path: TEN(opened(path)),
    "grey as three": grey,
    "tensors among frames": half_of_python,
    "clips": lambda path: torch.stack([clip_of_bytes(path), clip_of_bytes(path) * 2]),
    "clips of clips": lambda path: torch.stack([torch.stack([clip_of_bytes(path)] * 2)] * 2)[1],
    "colours": lambda path: torch.stack([*F.to_tensor(opened(path))][::-1]),
    "halves": lambda path: [*F.to_tensor(opened(path)).chunk(2, dim=2)],
}


@WORKERS
@pytest.mark.parametrize("what", SAMPLES)
def test_stacks_within_samples_are_native_with_torchs_bytes(
    paths: list[str], what: str, workers: int
) -> None:
    dataset = Opens(paths[:5], lambda path, index: {"it": SAMPLES[what](path), "label": index})
    compared(dataset, batch_size=2, num_workers=workers)


@pytest.mark.parametrize("what", SAMPLES)
def test_views_and_arithmetic_on_a_single_sample_have_torchs_strides(
    paths: list[str], what: str
) -> None:
    compared(Opens(paths[:2], lambda path, index: SAMPLES[what](path)), batch_size=None)


def divided(samples: list[Any]) -> Any:
    return default_collate(samples).permute(0, 2, 1, 3, 4).float() / 255


@WORKERS
def test_a_batch_of_clips_may_be_changed_by_the_collate_function(
    paths: list[str], workers: int
) -> None:
    def read(path: str, index: int) -> Any:
        return torch.stack([F.pil_to_tensor(frame) for frame in frames(path)])

    natively(Opens(paths[:6], read), counted(divided), workers)


def zeroed(part: Any) -> Any:
    part.zero_()
    return part


SHARING: dict[str, Callable[[Any, Any], Any]] = {
    "a view": lambda x, y: ((s := torch.stack([x, y])), zeroed(s[0]), s.permute(1, 0, 2, 3), x),
    "an image": lambda x, y: ((s := torch.stack([x, y])), zeroed(x), s[0]),
    "a stack of it": lambda x, y: ((s := torch.stack([x, y])), torch.stack([s, s]), zeroed(s)),
    "parts": lambda x, y: ((s := torch.stack([x, y * 2])), s.unbind(0), zeroed(s.chunk(2)[1])),
    "a result": lambda x, y: ((s := torch.stack([x, y]).permute(1, 0, 2, 3)), s * 2, zeroed(s[0])),
    "nothing": lambda x, y: ((s := torch.stack([x, y * 2])), s[1], s.flatten(), torch.stack([s])),
    "a view alone": lambda x, y: (torch.stack([x * 2, y])[0], x, y[0]),
    "a view of a stack of it": lambda x, y: (
        (s := torch.stack([x * 2, y])),
        torch.stack([s])[..., :10],
    ),
    "stacks of rows, twice": lambda x, y: (
        (s := torch.stack([x[0], y[1]])),
        (t := torch.stack([s, s])),
        t[0],
    ),
    "a stack beside what it has": lambda x, y: (torch.stack([x[0], y[0]])[:, 1:], x, x[0], y * 2),
}


@WORKERS
@pytest.mark.parametrize("what", SHARING)
def test_a_write_to_a_stack_is_visible_wherever_it_is_in_torch(
    paths: list[str], what: str, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        image = opened(path)
        return SHARING[what](F.to_tensor(image), F.to_tensor(F.hflip(image)))

    def changed(kind: Any) -> list[Any]:
        found = batches(kind, Opens(paths[:2], made), batch_size=None, num_workers=workers)
        for sample in found:
            for place, part in enumerate(sample):
                for tensor in part if isinstance(part, list | tuple) else [part]:
                    tensor.add_(place + 1)
        return found

    compared(Opens(paths[:2], made), strict=False, batch_size=None, num_workers=workers)
    assert same(changed(hr.DataLoader), changed(data.DataLoader))


WRONG: dict[str, Callable[[Any], Any]] = {
    "an index": lambda x: x[7],
    "axes": lambda x: x.permute(0, 1),
    "no parts": lambda x: x.chunk(0),
    "sizes": lambda x: x.split([1, 9]),
    "an axis": lambda x: x.unbind(5),
    "other shapes": lambda x: torch.stack([x, x[0]]),
    "a layout": lambda x: x[0].contiguous(memory_format=LAST),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_operations_error_is_torchs_and_is_raised_in_the_datasets_own_code(
    paths: list[str], what: str
) -> None:
    def tried(path: str, index: int) -> Any:
        try:
            return WRONG[what](clip_of_bytes(path)), "no error"
        except (IndexError, RuntimeError) as error:
            return type(error).__name__, str(error)

    ((kind, told), *_) = compared(Opens(paths[:1], tried), strict=False, batch_size=None)
    assert kind.endswith("Error")
    assert told


@WORKERS
def test_a_bad_frame_raises_where_the_program_catches_the_error(
    paths: list[str], tmp_path: Path, workers: int
) -> None:
    cut = tmp_path / "cut.jpg"
    content = Path(paths[0]).read_bytes()
    cut.write_bytes(content[: len(content) // 2])

    def made(path: str, index: int) -> Any:
        others = [SPATIAL(opened(other)) for other in paths[:2]]
        try:
            return torch.stack([*others, SPATIAL(opened(path))]).permute(1, 0, 2, 3)
        except OSError:
            return torch.stack([*others, others[0]]).permute(1, 0, 2, 3)

    dataset = Opens([*paths[:4], str(cut)], made)
    compared(dataset, strict=False, batch_size=3, num_workers=workers)


def test_the_frames_of_a_batch_are_decoded_into_one_memory(paths: list[str]) -> None:
    def read(path: str, index: int) -> Any:
        return torch.stack([SPATIAL(one) for one in frames(path)])

    (batch,) = compared(Opens(paths[:4], read), batch_size=4)
    assert batch.shape == (4, 4, 3, 15, 15)
    assert batch.untyped_storage().nbytes() == batch.nbytes


def test_explain_calls_stacks_of_frames_native(paths: list[str]) -> None:
    loader = hr.DataLoader(Opens(paths, lambda path, index: (clip(path), TEN(opened(path)))), 2)
    assert loader.explain().native
    loader.close()
    assert Image.open(paths[0]).size  # as it always was

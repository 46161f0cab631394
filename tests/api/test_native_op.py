"""A transform of the program's own: examples/native_op.c, compiled, on pixels."""

from __future__ import annotations

import ctypes
import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import images
from headrace import functional
from headrace.errors import ArgumentError, BadImageError

PACKAGE = Path(hr.__file__).parent
SOURCE = Path(__file__).parents[2] / "examples" / "native_op.c"
COUNT = 20


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("native_op")
    hr.pack(images.plain_tree(root / "photos", COUNT), root / "photos.hr")
    return root / "photos.hr"


@pytest.fixture(scope="module")
def tint(tmp_path_factory: pytest.TempPathFactory) -> Any:
    library = tmp_path_factory.mktemp("native_op") / "native_op.so"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    command = ["gcc", *strict, str(SOURCE), f"-I{PACKAGE}", "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).tint


def loader(packed: Path, *ops: Any, **options: Any) -> hr.Loader:
    form = {"dtype": "uint8", "layout": "NHWC", "output": "numpy", "fields": ["index"]}
    transform = [hr.transforms.Resize((9, 7)), *ops]
    return hr.Loader(packed, 6, transform=transform, shuffle=True, **{**form, **options})


def pixels(source: hr.Loader) -> dict[int, Any]:
    """The pixels of an epoch by sample number, independent of the order."""
    return {
        int(index): image.copy()
        for batch, _, fields in source
        for index, image in zip(fields["index"], batch, strict=True)
    }


def test_a_function_in_c_changes_pixels_by_its_context_and_its_random_bits(
    packed: Path, tint: Any
) -> None:
    strength = ctypes.c_int32(25)
    op = hr.transforms.Native(tint, ctypes.addressof(strength))
    with loader(packed) as plain, loader(packed, op) as source:
        before, after = pixels(plain), pixels(source)
    channels = set()
    for index, image in before.items():
        changed = (before[index] != after[index]).any((0, 1)).nonzero()[0]
        assert len(changed) == 1
        channels.add(int(changed[0]))
        image[..., changed[0]] = np.minimum(image[..., changed[0]].astype(int) + 25, 255)
        assert (image == after[index]).all()
    assert channels == {0, 1, 2}


def test_random_bits_do_not_depend_on_threads_and_ranks(packed: Path, tint: Any) -> None:
    op = hr.transforms.RandomApply([hr.transforms.Native(tint)], 0.7)
    with loader(packed, op, num_threads=1) as source:
        first, second = pixels(source), pixels(source)
    with loader(packed, op, num_threads=3) as source:
        again = pixels(source)
    shares: dict[int, Any] = {}
    for rank in range(2):
        with loader(packed, op, rank=rank, world_size=2) as source:
            shares |= pixels(source)
    assert any((first[index] != second[index]).any() for index in first)
    for index, image in first.items():
        assert (image == again[index]).all()
        assert (image == shares[index]).all()


def test_a_function_gets_the_samples_number_and_the_images_size(packed: Path) -> None:
    seen = []
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint8),
        ctypes.c_int32,
        ctypes.c_int32,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_uint64,
    )

    def note(context: int, _: Any, height: int, width: int, stride: int, bits: Any, i: int) -> int:
        seen.append((context, height, width, stride >= 4 * width, tuple(bits[:4]), i))
        return 0

    function = kind(note)
    op = hr.transforms.Native(function, 2**64 - 2)
    with loader(packed, op, num_threads=1, prefetch=1) as source:
        _, _, fields = next(iter(source))
        found = {call[5] for call in seen}
        assert set(fields["index"].tolist()) <= found
    assert {call[:4] for call in seen} == {(2**64 - 2, 9, 7, True)}
    assert len({call[4] for call in seen}) == len(seen)


def test_a_nonzero_return_value_is_an_error_of_its_sample(packed: Path, tint: Any) -> None:
    strength = ctypes.c_int32(-1)
    op = hr.transforms.Native(tint, ctypes.addressof(strength))
    with loader(packed, op) as source, pytest.raises(BadImageError, match="returned 7") as caught:
        next(iter(source))
    assert caught.value.record is not None


@pytest.fixture
def addresses(tint: Any) -> list[str]:
    value = ctypes.cast(tint, ctypes.c_void_p).value
    return [str(value), hex(value or 0)]


def test_no_state_and_no_replay_has_an_address(
    packed: Path, tint: Any, addresses: list[str]
) -> None:
    op = hr.transforms.Native(tint)
    with loader(packed, op) as source:
        next(iter(source))
        texts = [source.state_dict(), source.stats(), source.report(), source._info()]
        steps = functional.replay(source.dataset.read(0), [op])
    assert json.loads(json.dumps(steps)) == [["native", {}]]
    for text in [*map(json.dumps, texts), json.dumps(steps)]:
        assert not any(address in text for address in addresses)


def test_an_address_that_was_saved_as_text_or_pickled_is_refused(packed: Path, tint: Any) -> None:
    op = hr.transforms.Native(tint)
    for saved in (op, hr.transforms.RandomApply([op]), hr.transforms.RandomOrder([op])):
        read = json.loads(json.dumps(saved.to_dict()))
        with pytest.raises(ArgumentError, match="read from text"):
            loader(packed, read)
        with pytest.raises(TypeError, match="another one"):
            pickle.dumps(saved)
    with pytest.raises(ArgumentError, match="read from text"):
        loader(packed, hr.transforms.RandomApply([op.to_dict() | {"function": 4096}]))


@pytest.mark.parametrize("function", [0, -1, 2**64, None, "0x10", 1.5, True])
def test_a_value_that_is_no_address_is_refused(function: Any) -> None:
    with pytest.raises(ArgumentError, match="function"):
        hr.transforms.Native(function)
    if function != 0:
        with pytest.raises(ArgumentError, match="context"):
            hr.transforms.Native(4096, function)

"""``headrace.explain``: which samples of any loader are native, and what to do about the others."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv
from torchvision.io import read_image
from torchvision.utils import make_grid

import forking
import headrace as hr
import images
from headrace import errors

NEAREST = tv.InterpolationMode.NEAREST
STEPS = tv.Compose([tv.Resize(20), tv.CenterCrop(16), tv.ToTensor()])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("explain") / "photos", 6)


class Listed(data.Dataset[Any]):
    """Images from a list of paths, each made by a function."""

    def __init__(self, root: Path, make: Any) -> None:
        self.paths, self.make = sorted(root.rglob("*.jpg")), make

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.paths[index])


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def masked(path: Path) -> Any:
    image = opened(path)
    mask = np.asarray(image)[..., 0]  # the line that is told
    return {"views": [STEPS(image), STEPS(image)], "mask": mask, "boxes": np.zeros((3, 4))}


def line_of(text: str) -> str:
    """The place of the line of this file that ends so."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(text)]
    return f"{__file__}:{number}"


@pytest.mark.parametrize("kind", [data.DataLoader, hr.DataLoader])
def test_each_image_of_a_sample_is_listed_with_the_line_that_makes_it_run_in_python(
    root: Path, kind: Any
) -> None:
    found = hr.explain(kind(Listed(root, masked), 2, shuffle=True))
    line = line_of("# the line that is told")
    assert [(leaf.where, leaf.native, leaf.place) for leaf in found.leaves] == [
        ("['views'][0]", True, ""),
        ("['views'][1]", True, ""),
        ("['mask']", False, line),
    ]
    assert [reason.place for reason in found.reasons] == [line]
    assert "headrace.from_torchvision" in found.cure
    assert not found.native
    table = str(found).splitlines()
    assert table[0] == "['views'][0]  native  Tensor (3, 16, 16) torch.float32"
    assert table[2].startswith("['mask']      Python  ndarray (")
    assert table[2].endswith(f"uint8, from {line}")
    assert table[3].startswith("in Python: ")
    assert table[4] == found.cure


def of_several_lines(path: Path) -> Any:
    image = opened(path)
    turned = np.asarray(image.rotate(5))  # one line
    flat = np.array(Image.new("RGB", (9, 9), image.getpixel((0, 0))))  # another line
    tensor = STEPS(image).sqrt()  # a third
    again = np.array(image.getchannel(0))  # and of pixels that are there
    return {
        "turned": turned[..., ::-1],
        "flat": [flat],
        "tensor": (tensor, STEPS(image)),
        "both": turned[:8, :8] + again[:8, :8, None],
        "again": again,
        "of none": np.zeros((8, 8, 3), np.uint8),
        "another each time": np.random.default_rng().integers(0, 255, (8, 8, 3), np.uint8),
    }


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda image: make_grid([image, image]), "torchvision.utils.make_grid "),
        (lambda image: torch.unique(image), "torch.functional."),
    ],
)
def test_the_innermost_function_is_named_and_not_its_wrapper(
    root: Path, function: Any, name: str
) -> None:
    dataset = Listed(root, lambda path: function(F.to_tensor(opened(path))))
    with contextlib.closing(hr.DataLoader(dataset)) as loader:
        (reason,) = loader.explain().reasons
    assert reason.text.startswith(name)


def test_each_image_has_its_own_line_if_several_lines_need_pixels(root: Path) -> None:
    states = torch.get_rng_state(), random.getstate()
    found = hr.explain(data.DataLoader(Listed(root, of_several_lines)))
    one, another, third, again = (
        line_of(f"# {text}")
        for text in ("one line", "another line", "a third", "and of pixels that are there")
    )
    assert {leaf.where: leaf.place for leaf in found.leaves} == {
        "['turned']": one,
        "['flat'][0]": another,
        "['tensor'][0]": third,
        "['tensor'][1]": "",
        "['both']": one,
        "['again']": again,
        "['of none']": "",
        "['another each time']": "",
    }
    assert [leaf.where for leaf in found.leaves if leaf.native] == ["['tensor'][1]"]
    assert [reason.place for reason in found.reasons] == [one, another, third, again]
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


class Features(UserDict[str, Any]):
    """A batch like Hugging Face's BatchFeature."""


class Plain:
    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)
        self.itself = self


def grey_floats(path: Path) -> Any:
    return np.asarray(opened(path).convert("L"), np.float32) / 255  # grey_floats


def grey_tensor(path: Path) -> Any:
    return torch.from_numpy(np.asarray(opened(path).convert("L"), np.float32))  # grey_tensor


def whole_numbers(path: Path) -> Any:
    return torch.from_numpy(np.asarray(opened(path)).astype(np.int64))  # whole_numbers


def features(path: Path) -> Any:
    return Features(pixels=np.asarray(opened(path)))  # features


def plain_object(path: Path) -> Any:
    image = np.asarray(opened(path))  # plain_object
    return Plain(table=np.ones((77, 768), np.float32), image=image)


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (grey_floats, "sample"),
        (grey_tensor, "sample"),
        (whole_numbers, "sample"),
        (features, "['pixels']"),
        (plain_object, ".image"),
    ],
)
def test_images_of_any_dtype_and_in_any_object_are_listed_with_their_line(
    root: Path, make: Any, where: str
) -> None:
    found = hr.explain(data.DataLoader(Listed(root, make), collate_fn=list))
    line = line_of(f"# {make.__name__}")
    assert [(leaf.where, leaf.native, leaf.place) for leaf in found.leaves] == [
        (where, False, line)
    ]
    assert line in str(found)
    assert found.cure in str(found)


def test_native_images_are_found_in_any_object_and_tables_are_not_taken_for_images(
    root: Path,
) -> None:
    def make(path: Path) -> Any:
        table = np.ones((77, 768), np.float32)
        return Features(image=STEPS(opened(path)), table=table), Plain(other=STEPS(opened(path)))

    found = hr.explain(data.DataLoader(Listed(root, make), collate_fn=list))
    assert [leaf.where for leaf in found.leaves] == ["[0]['image']", "[1].other"]
    assert found.native


def test_the_line_that_needed_pixels_is_named_also_if_the_sample_has_no_image(root: Path) -> None:
    def make(path: Path) -> Any:
        return float(np.asarray(opened(path)).mean())  # to one mean

    found = hr.explain(data.DataLoader(Listed(root, make)))
    first, why, cure = str(found).splitlines()
    assert first == "no image is found in the sample"
    assert why.endswith(f"needs the pixels ({line_of('# to one mean')})")
    assert cure == found.cure != ""


@pytest.mark.parametrize("kind", ["submit", "map", "named", "pool"])
@pytest.mark.parametrize("workers", [0, 1])
def test_images_that_a_dataset_opens_in_its_own_threads_are_pillows_and_listed_with_their_line(
    root: Path, kind: str, workers: int
) -> None:
    class InThreads(Listed):
        threads: Any = None

        def __getitem__(self, index: int) -> Any:
            if self.threads is None:  # in the process that uses them
                self.threads = ThreadPool(1) if kind == "pool" else ThreadPoolExecutor(1)
            path, threads = self.paths[index], self.threads
            if kind == "submit":
                return STEPS(threads.submit(opened, path).result())  # submit
            if kind == "named":
                return STEPS(threads.submit(opened, path=path).result())  # named
            if kind == "map":
                return STEPS(*threads.map(opened, [path]))  # map
            return STEPS(threads.apply(opened, (path,)))  # pool

    dataset = InThreads(root, None)
    found = hr.explain(data.DataLoader(dataset))
    assert not found.native
    assert [reason.place for reason in found.reasons] == [line_of(f"# {kind}")]
    assert "in the thread that runs __getitem__" in found.cure
    dataset.threads = None
    loader = hr.DataLoader(dataset, strict=True, num_workers=workers)
    with (
        contextlib.closing(loader),
        pytest.raises(errors.UnsupportedError, match="in a thread of the program's own"),
    ):
        next(iter(loader))


def test_tensors_of_bfloat16_and_tensors_with_gradients_are_explained(root: Path) -> None:
    def make(path: Path) -> Any:
        image = opened(path)
        half = F.to_tensor(image).sqrt().to(torch.bfloat16)  # to numbers of two bytes
        corner = torch.tensor(image.getpixel((0, 0))[0] / 1.0, requires_grad=True)  # to one number
        return half + 0, corner.reshape(1, 1, 1)

    found = hr.explain(data.DataLoader(Listed(root, make)))
    assert len(found.reasons) == 2
    assert found.leaves[0].place == line_of("# to numbers of two bytes")


def test_a_file_that_pillow_opens_is_listed_with_its_line(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "palette.ppm"
    Image.fromarray(images.pixels(20, 20)).save(path)

    def make(photo: Path) -> Any:
        foreign = Image.open(path)  # of a kind that Pillow opens
        array = Image.fromarray(images.pixels(8, 8).astype(np.int32)[..., 0])  # of an array
        picky = np.asarray(opened(photo))  # and of one that it checks
        assert picky.shape == (*opened(photo).size[::-1], 3)
        return foreign, np.asarray(array).astype(np.uint8), STEPS(opened(photo)), picky

    found = hr.explain(data.DataLoader(Listed(root, make)))
    assert [leaf.place for leaf in found.leaves] == [
        line_of("# of a kind that Pillow opens"),
        line_of("# of an array"),
        "",
        line_of("# and of one that it checks"),
    ]


def test_a_program_that_checks_its_pixels_is_explained_without_lines(root: Path) -> None:
    def make(path: Path) -> Any:
        image = opened(path)
        corner = image.getpixel((0, 0))
        pixels = np.asarray(image)
        if tuple(pixels[0, 0]) != corner:
            raise ValueError("another picture")
        return pixels

    found = hr.explain(data.DataLoader(Listed(root, make)))
    assert [(leaf.native, leaf.place) for leaf in found.leaves] == [(False, "")]
    assert len(found.reasons) == 2


class KeepsAnIterator:
    """A loader that keeps torch's iterator, as those whose workers stay between epochs."""

    kept: Any = None

    def __iter__(self) -> Any:
        if self.kept is None:
            self.kept = self._get_iterator()  # type: ignore[attr-defined]
        return self.kept


class OverTorchs(KeepsAnIterator, data.DataLoader[Any]):
    pass


class OverHeadraces(KeepsAnIterator, hr.DataLoader[Any]):
    pass


class Counts(hr.DataLoader[Any]):
    def __iter__(self) -> Any:
        return enumerate(super().__iter__())


def test_a_loader_whose_class_uses_torchs_iterator_is_explained_with_the_cure(root: Path) -> None:
    dataset = Listed(root, lambda path: STEPS(opened(path)))
    for kind in (OverTorchs, OverHeadraces):
        with pytest.raises(errors.UnsupportedError, match=r"torch's own.*leave __iter__"):
            hr.explain(kind(dataset))
    with contextlib.closing(Counts(dataset, strict=True)) as loader:
        assert loader.explain().native
        assert [number for number, _ in loader] == [*range(len(dataset))]


@pytest.mark.slow
def test_a_loader_in_a_process_forked_from_one_with_an_engine_is_explained_with_the_cure(
    root: Path, forked: forking.Parent
) -> None:
    code = """
        import os, sys, warnings
        import headrace as hr
        from pathlib import Path
        from PIL import Image
        from torch.utils import data
        from torchvision import transforms as tv

        STEPS = tv.Compose([tv.Resize((8, 8)), tv.ToTensor()])

        class Opens(data.Dataset):
            paths = sorted(Path(sys.argv[1]).rglob("*.jpg"))
            def __len__(self):
                return len(self.paths)
            def __getitem__(self, index):
                return STEPS(Image.open(self.paths[index]).convert("RGB"))

        first = hr.DataLoader(Opens(), 3, strict=True)
        expected = [batch.sum().item() for batch in first]
        first.close()
        if os.fork() == 0:
            loader = hr.DataLoader(Opens(), 3)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = [batch.sum().item() for batch in loader]
            assert found == expected
            print(*[one.message for one in said])
            for tried in (loader.explain, lambda: list(hr.DataLoader(Opens(), strict=True))):
                try:
                    tried()
                except hr.errors.UnsupportedError as error:
                    print(error)
            sys.stdout.flush()
            os._exit(0)
        os.wait()
    """
    said = forked.run(code, root, timeout=120).splitlines()
    sentence = (
        "this process was forked from one that uses the engine, which does not survive a fork; use "
        "the start method spawn or forkserver"
    )
    assert len(said) == 3
    assert "torch's loader loads this dataset in Python" in said[0]
    assert "torch's own DataLoader loads it" in said[1]
    assert "strict=True" in said[2]
    assert all(sentence in line for line in said)


def test_explain_leaves_torchs_loader_unchanged_draws_nothing_and_warns_of_nothing(
    root: Path,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice
        loader = data.DataLoader(
            datasets.ImageFolder(root, STEPS), 2, shuffle=True, num_workers=64, drop_last=True
        )
    before = dict(loader.__dict__)
    states = torch.get_rng_state(), random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hr.explain(loader)
    assert found.native
    assert loader.__dict__ == before
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


def test_every_cause_has_its_cure(root: Path, tmp_path: Path) -> None:
    unopened = hr.explain(data.DataLoader(Listed(root, lambda path: torch.zeros(3, 8, 8))))
    assert "Listed opens no image" in unopened.reasons[0].text
    assert "PIL.Image.open" in unopened.cure
    Image.new("RGB", (20, 20)).save(tmp_path / "one.ppm")
    foreign = Listed(root, lambda path: STEPS(opened(tmp_path / "one.ppm")))
    found = hr.explain(data.DataLoader(foreign))
    assert "save it as JPEG, PNG, WebP, BMP, GIF or TIFF" in found.cure
    assert not found.native
    rest = tv.Compose([tv.ToTensor(), tv.Lambda(lambda image: image.sqrt())])
    ended = hr.explain(data.DataLoader(datasets.ImageFolder(root, rest)))
    assert ended.reasons[0].text.endswith("<lambda> needs the pixels")
    assert ended.reasons[0].place.startswith(__file__)
    assert "headrace.from_torchvision" in ended.cure


def resized_in_floats(path: Path) -> Any:
    steps = torch.nn.Sequential(tv.Resize([20, 20]), tv.CenterCrop([16, 16]))
    return steps(read_image(str(path)))


def of_a_palette(path: Path) -> Any:
    mask = Image.open(path.with_suffix(".png"))
    return F.pil_to_tensor(tv.RandomResizedCrop(16, interpolation=NEAREST)(mask))


def pasted(path: Path) -> Any:
    canvas = Image.new("RGB", (99, 99))
    canvas.paste(opened(path), (3, 4))
    return F.to_tensor(canvas)


@pytest.mark.parametrize(
    ("make", "why", "cure"),
    [
        (resized_in_floats, "resizes a tensor with version 1", "torchvision.transforms.v2.Resize"),
        (of_a_palette, "needs the pixels of an image of mode P", "The numbers of a palette"),
        (pasted, "PIL.Image.Image.paste needs the pixels", "PIL.ImageOps.pad"),
    ],
)
def test_causes_that_no_translated_transform_cures_have_their_own_advice(
    root: Path, make: Any, why: str, cure: str
) -> None:
    for path in root.rglob("*.jpg"):
        Image.open(path).quantize(200).save(path.with_suffix(".png"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchvision's, of its decoders
        found = hr.explain(data.DataLoader(Listed(root, make)))
    assert [why in reason.text for reason in found.reasons] == [True]
    assert cure in found.cure
    assert "headrace.from_torchvision" not in found.cure


def test_a_target_made_of_no_image_is_told_from_work_on_an_image(root: Path) -> None:
    def posed(path: Path) -> Any:
        heat = np.zeros((17, 12, 16), np.float32)
        heat[:, 3, 4] = 1
        return STEPS(opened(path)), heat

    with contextlib.closing(hr.DataLoader(Listed(root, posed), strict=True)) as loader:
        assert len(list(loader)) == len(loader)
        told = loader.explain()
    assert [leaf.native for leaf in told.leaves] == [True, False]
    assert "images or arrays of something else than what it opens" in str(told)
    assert "A target, such as a heat map, may stay as it is." in told.cure
    assert "that line" not in told.cure


def test_subclasses_streams_and_single_samples_are_explained(root: Path) -> None:
    class Own(data.DataLoader[Any]):
        def __init__(self, root: Path) -> None:
            super().__init__(Listed(root, lambda path: STEPS(opened(path))), batch_size=None)

    class Stream(data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            return (STEPS(opened(path)) for path in sorted(root.rglob("*.jpg")))

    assert hr.explain(Own(root), 3).native
    assert hr.explain(data.DataLoader(Stream(), 2)).native
    text = str(hr.explain(data.DataLoader(data.TensorDataset(torch.zeros(3)))))
    assert text == "the sample has no image"


class ListedInBatches(Listed):
    """Its batches are made by a method of their own, and single samples by none."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self.make(self.paths[index]) for index in indices]


def test_a_dataset_that_makes_whole_batches_is_explained_by_that_method(root: Path) -> None:
    found = hr.explain(hr.DataLoader(ListedInBatches(root, lambda path: STEPS(opened(path))), 2))
    assert found.native
    assert [leaf.where for leaf in found.leaves] == ["sample"]
    found = hr.explain(hr.DataLoader(ListedInBatches(root, masked), 2), 3)
    line = line_of("# the line that is told")
    assert [reason.place for reason in found.reasons] == [line]
    with pytest.raises(NotImplementedError):  # torch's loader asks for single samples here
        hr.explain(hr.DataLoader(ListedInBatches(root, opened), batch_size=None))


def test_an_object_that_is_not_torchs_loader_is_refused_in_a_sentence(root: Path) -> None:
    with pytest.raises(hr.errors.ArgumentError, match=r"builtins\.list: a torch\.utils\.data"):
        hr.explain([1])
    loader = hr.Loader(root, batch_size=2, transform=[hr.transforms.Resize((8, 8))])
    with pytest.raises(hr.errors.ArgumentError, match="always native"):
        hr.explain(loader)
    loader.close()
    pipe = data.datapipes.iter.IterableWrapper([1, 2])
    with pytest.raises(hr.errors.UnsupportedError, match="data pipes itself"):
        hr.explain(data.DataLoader(pipe))


class OpensAnother(Listed):
    """Takes another file in place of a bad one."""

    def __getitem__(self, index: int) -> Any:
        try:
            return STEPS(opened(self.paths[index]))
        except OSError:
            return STEPS(opened(self.paths[1]))


def test_a_file_that_cannot_be_decoded_is_named_with_what_happens_to_its_sample(
    root: Path, tmp_path: Path
) -> None:
    whole = next(root.rglob("*.jpg")).read_bytes()
    for number, content in enumerate((whole, whole, whole[: len(whole) // 2], b"no image")):
        (tmp_path / f"{number}.jpg").write_bytes(content)
    told = {}
    with contextlib.closing(hr.DataLoader(OpensAnother(tmp_path, None))) as loader:
        for number in (0, 2, 3):
            told[number] = hr.explain(loader, number)
    assert told[0].native
    assert not told[2].native
    assert not told[2].leaves[0].native
    assert "2.jpg cannot be decoded: image file is truncated" in str(told[2])
    assert "code runs again for that sample" in told[2].cure
    assert "3.jpg is no image that Pillow opens" in str(told[3])
    assert "meets Pillow's error where it opens the file" in told[3].cure


def test_an_error_in_the_datasets_own_code_names_the_index(root: Path) -> None:
    def refuses(path: Path) -> Any:
        raise KeyError(path.name)

    loader = hr.DataLoader(Listed(root, refuses))
    with contextlib.closing(loader), pytest.raises(KeyError) as caught:
        hr.explain(loader, 3)
    assert any("index 3 of the dataset" in text for text in notes(caught.value))


@pytest.mark.parametrize("kind", [hr.DataLoader, data.DataLoader])
def test_a_dataset_that_is_asked_for_lists_of_indices_is_explained(root: Path, kind: Any) -> None:
    class InBatches(Listed):
        def __getitem__(self, index: Any) -> Any:
            return torch.stack([STEPS(opened(self.paths[number])) for number in index])

    dataset = InBatches(root, None)
    sampler = data.BatchSampler(data.RandomSampler(dataset), 3, False)
    told = hr.explain(kind(dataset, batch_size=None, sampler=sampler))
    assert told.native, str(told)
    assert "(1, 3, 16, 16)" in told.leaves[0].what


def test_a_dataset_that_refuses_the_index_0_is_explained_for_an_index_of_its_sampler(
    root: Path,
) -> None:
    class BySize(Listed):
        def __getitem__(self, key: Any) -> Any:
            number, size = key
            return F.to_tensor(opened(self.paths[number]).resize((size, size)))

    loader = hr.DataLoader(BySize(root, None), batch_sampler=[[(0, 24), (1, 24)]])
    with contextlib.closing(loader):
        with pytest.raises(TypeError) as caught:
            hr.explain(loader)
        assert any("explain(index) takes another index" in text for text in notes(caught.value))
        assert hr.explain(loader, (1, 24)).native


def notes(failure: BaseException) -> list[str]:
    """Notes that were added to an error; before Python 3.11 they are in its message."""
    return [*getattr(failure, "__notes__", ()), str(failure)]


def test_with_num_workers_the_last_line_says_whether_there_are_processes_and_why(
    root: Path,
) -> None:
    def last_line(dataset: Any, workers: int, **arguments: Any) -> str:
        found = hr.explain(hr.DataLoader(dataset, 2, num_workers=workers, **arguments))
        assert str(found).splitlines()[-1] == found.runs or not found.runs
        return found.runs

    folder = datasets.ImageFolder(root, STEPS)
    assert last_line(folder, 0) == ""
    assert last_line(folder, 1) == "the engine reads and decodes in 1 thread, and starts no process"
    assert last_line(folder, 2).startswith("the engine reads and decodes in 2 threads")
    code = "the dataset's code runs in 2 worker processes, because "
    labelled = datasets.ImageFolder(root, STEPS, target_transform=str)
    assert last_line(labelled, 2) == f"{code}ImageFolder has a target_transform"
    own = Listed(root, lambda path: STEPS(opened(path)))
    assert last_line(own, 2) == f"{code}Listed is not one of the datasets that Headrace reads"
    assert last_line(own, 1).startswith("the dataset's code runs in 1 worker process, because")
    ended = tv.Compose([tv.ToTensor(), tv.Lambda(lambda image: image.sqrt())])
    said = last_line(datasets.ImageFolder(root, ended), 2)
    assert said.startswith(code)
    assert "Lambda" in said or "lambda" in said
    assert last_line(data.TensorDataset(torch.zeros(3)), 2).startswith(code)

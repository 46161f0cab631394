"""torch's names replaced by Headrace's; each program has its own process, as names are global."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import forking
import images
import processes

BEGIN = """
    import copy, pickle, sys
    import torch
    from torch.utils import data
    from torch.utils.data import dataloader
    from torch.utils.data import DataLoader as Torchs
    from torchvision import datasets, transforms as tv
    import headrace

    FIXED = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])
    photos = datasets.ImageFolder(sys.argv[1], FIXED)
    old = Torchs(photos, 3, drop_last=True)
    expected = [images for images, _ in Torchs(photos, 3, drop_last=True)]

    def same(loader):
        found = [images for images, _ in loader]
        return len(found) == len(expected) > 1 and all(map(torch.equal, found, expected))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("installing") / "photos", 7)


@pytest.fixture
def program(root: Path, forked: forking.Parent) -> Callable[[str], None]:
    def run(code: str) -> None:
        assert forked.run(f"{BEGIN}{code}\n    print('done')", root, timeout=200) == "done\n"

    return run


@pytest.mark.slow
def test_both_of_torchs_names_mean_headraces_class_until_uninstall(
    program: Callable[[str], None],
) -> None:
    code = """
    installed = headrace.install()
    assert data.DataLoader is dataloader.DataLoader is headrace.DataLoader
    from torch.utils.data import DataLoader
    assert DataLoader is headrace.DataLoader
    assert same(data.DataLoader(photos, 3, drop_last=True))
    installed.uninstall()
    assert data.DataLoader is dataloader.DataLoader is Torchs
    with headrace.install():
        with headrace.install():
            assert data.DataLoader is headrace.DataLoader
        assert data.DataLoader is headrace.DataLoader
    assert data.DataLoader is Torchs
    headrace.install()
    headrace.install()
    headrace.uninstall()
    assert data.DataLoader is Torchs
    headrace.uninstall()
    """
    program(code)


@pytest.mark.slow
def test_a_name_that_another_library_has_changed_is_left_alone(
    program: Callable[[str], None],
) -> None:
    code = """
    class Theirs(Torchs):
        pass
    data.DataLoader = Theirs
    headrace.install()
    assert (data.DataLoader, dataloader.DataLoader) == (Theirs, headrace.DataLoader)
    dataloader.DataLoader = Theirs
    headrace.uninstall()
    assert (data.DataLoader, dataloader.DataLoader) == (Theirs, Theirs)
    """
    program(code)


@pytest.mark.slow
def test_torchs_loaders_are_instances_of_the_class_that_its_name_means_at_that_time(
    program: Callable[[str], None],
) -> None:
    code = """
    class Before(Torchs):
        pass
    made = Before(photos, 3, drop_last=True)
    assert not isinstance(old, headrace.DataLoader)
    headrace.install()
    for loader in (old, made, Torchs(photos), headrace.DataLoader(photos)):
        assert isinstance(loader, data.DataLoader) and isinstance(loader, dataloader.DataLoader)
    assert issubclass(Before, data.DataLoader) and not isinstance(photos, data.DataLoader)
    class After(data.DataLoader):
        pass
    assert not isinstance(old, After) and isinstance(After(photos), Torchs)
    assert same(old) and same(made) and type(iter(made)).__module__.startswith("torch.")
    headrace.uninstall()
    assert isinstance(headrace.DataLoader(photos), data.DataLoader)
    assert not isinstance(old, headrace.DataLoader)
    """
    program(code)


@pytest.mark.slow
def test_subclasses_of_torchs_name_derive_from_headraces(program: Callable[[str], None]) -> None:
    code = """
    import abc
    headrace.install()

    class Endless(dataloader.DataLoader):  # as timm's and YOLOv5's
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            self._DataLoader__initialized = False
            self.batch_sampler = Again(self.batch_sampler)
            self._DataLoader__initialized = True
            self.iterator = super().__iter__()
        def __len__(self):
            return len(self.batch_sampler.sampler)
        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

    class Again:
        def __init__(self, sampler):
            self.sampler = sampler
        def __iter__(self):
            while True:
                yield from self.sampler

    class Abstract(data.DataLoader[int], abc.ABC):
        pass

    class Torchlike(data.DataLoader):  # asks for torch's iterator, as ultralytics' does
        def __iter__(self):
            return self._get_iterator()

    endless = Endless(photos, 3, drop_last=True, strict=True)
    assert same(endless) and same(endless)
    assert same(Abstract(photos, 3, drop_last=True, strict=True))
    assert same(Torchlike(photos, 3, drop_last=True))
    assert issubclass(Abstract, headrace.DataLoader) and Torchs in Endless.__mro__
    """
    program(code)


@pytest.mark.slow
def test_loaders_and_torchs_class_can_be_pickled_before_during_and_after_install(
    program: Callable[[str], None],
) -> None:
    code = """
    early = pickle.dumps(old)
    headrace.install()
    for held in (old, Torchs, data.DataLoader(photos, 3, drop_last=True), data.DataLoader):
        again = pickle.loads(pickle.dumps(held))
        assert type(again) is type(held) and (held is again or same(again))
    assert type(copy.deepcopy(old)) is Torchs and same(copy.copy(old))
    late = pickle.dumps(old)
    # torch's name in a pickle means Headrace's class, as in a program.
    assert type(pickle.loads(early)) is headrace.DataLoader
    assert pickle.loads(early).batch_size == 3 and same(pickle.loads(early))
    headrace.uninstall()
    for kept in (early, late):
        assert type(pickle.loads(kept)) is Torchs and same(pickle.loads(kept))
    assert pickle.loads(pickle.dumps(Torchs)) is Torchs
    """
    program(code)


SPAWNS = """
import multiprocessing, sys

def child(loader):
    import torch.utils.data
    name, of = torch.utils.data.DataLoader.__module__, type(loader).__name__
    print(name, of, len(list(loader)), flush=True)

def light():
    print("torch" in sys.modules, flush=True)

if __name__ == "__main__":
    from torch.utils.data import DataLoader
    import headrace
    with headrace.install():
        for method in ("spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            for target, given in ((child, (DataLoader([1, 2]),)), (light, ())):
                process = context.Process(target=target, args=given)
                process.start()
                process.join()
                assert process.exitcode == 0
    process = context.Process(target=child, args=(DataLoader([1, 2]),))
    process.start()
    process.join()
    assert process.exitcode == 0
"""


@pytest.mark.slow
def test_spawned_processes_have_headraces_class_too_without_importing_torch(tmp_path: Path) -> None:
    file = tmp_path / "spawns.py"
    file.write_text(SPAWNS)
    out = processes.run(
        "import runpy, sys; runpy.run_path(sys.argv[1], None, '__main__')", file, timeout=250
    )
    told = "headrace.dataloader DataLoader 2\nFalse\n"
    assert out == f"{told}{told}torch.utils.data.dataloader DataLoader 2\n"

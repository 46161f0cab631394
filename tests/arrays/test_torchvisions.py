"""torchvision's datasets that are one array run natively in the DataLoader with the same bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import DistributedSampler
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

import headrace as hr
from headrace import errors

GENERATOR = np.random.default_rng(8)
ROWS = 60


def made(name: str, transform=None, rows: int = ROWS, channels: int = 3, side: int = 32):
    """A dataset of torchvision's class with images made here, because its own come from the
    internet."""
    kind = getattr(datasets, name)
    dataset = kind.__new__(kind)
    datasets.VisionDataset.__init__(dataset, "/nowhere", transform=transform)
    labels = GENERATOR.integers(0, 10, rows)
    if issubclass(kind, datasets.MNIST):
        images = GENERATOR.integers(0, 256, (rows, 28, 28), np.uint8)
        dataset.data, dataset.targets = torch.from_numpy(images), torch.from_numpy(labels)
    elif issubclass(kind, datasets.CIFAR10):
        dataset.data = GENERATOR.integers(0, 256, (rows, 32, 32, 3), np.uint8)
        dataset.targets = labels.tolist()
    else:
        side = 96 if name == "STL10" else 32
        dataset.data = GENERATOR.integers(0, 256, (rows, 3, side, side), np.uint8)
        dataset.labels = labels
    return dataset


GREYS = ["MNIST", "FashionMNIST", "KMNIST", "EMNIST"]
COLOURED = ["CIFAR10", "CIFAR100", "SVHN", "STL10"]
TRANSFORMS = {
    "ToTensor": v1.ToTensor(),
    "Normalize": v1.Compose([v1.ToTensor(), v1.Normalize(0.1307, 0.3081)]),
    "v2": v2.Compose(
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])]
    ),
    "Resize": v1.Compose([v1.Resize(20), v1.CenterCrop(16), v1.ToTensor()]),
    "Pad": v1.Compose([v1.Pad(2), v1.ToTensor()]),
    "uint8": v1.PILToTensor(),
}


def batches(loader) -> list:
    return [(images, labels) for images, labels in loader]


@pytest.mark.parametrize("transform", list(TRANSFORMS))
@pytest.mark.parametrize("name", GREYS + COLOURED)
@pytest.mark.every(3)
def test_a_torchvision_dataset_is_native_and_has_torchvisions_bytes(name, transform):
    dataset = made(name, TRANSFORMS[transform])
    ours = hr.DataLoader(dataset, batch_size=16, strict=True)
    found, expected = batches(ours), batches(torch.utils.data.DataLoader(dataset, batch_size=16))
    ours.close()
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one[0].dtype == other[0].dtype
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
        assert one[1].dtype == other[1].dtype
    assert found[0][0].shape[1] == (1 if name in GREYS else 3)


def test_subsets_and_shuffles_have_torchs_order():
    dataset = made("MNIST", TRANSFORMS["Normalize"])
    part = torch.utils.data.Subset(dataset, [5, 3, 50, 8, 9, 10])
    both = torch.utils.data.ConcatDataset([part, made("KMNIST", TRANSFORMS["Normalize"])])
    for whole in (part, both):
        torch.manual_seed(1)
        ours = hr.DataLoader(whole, batch_size=4, shuffle=True, strict=True)
        found = batches(ours)
        torch.manual_seed(1)
        expected = batches(torch.utils.data.DataLoader(whole, batch_size=4, shuffle=True))
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one[0], other[0])
            assert torch.equal(one[1], other[1])
        ours.close()


@pytest.mark.parametrize("name", GREYS + COLOURED)
def test_ranks_of_a_distributed_sampler_have_torchs_images_and_labels(name):
    dataset = made(name, TRANSFORMS["Normalize"], rows=50)
    for rank in range(3):
        options = {"num_replicas": 3, "rank": rank, "seed": 5}
        samplers = [DistributedSampler(dataset, **options) for _ in range(2)]
        ours = hr.DataLoader(dataset, batch_size=4, sampler=samplers[0], strict=True)
        theirs = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=samplers[1])
        with contextlib.closing(ours):
            for epoch in range(2):
                for sampler in samplers:
                    sampler.set_epoch(epoch)
                found, expected = batches(ours), batches(theirs)
                assert len(found) == len(expected) == 5
                for one, other in zip(found, expected, strict=True):
                    assert torch.equal(one[0], other[0])
                    assert torch.equal(one[1], other[1])


def test_without_totensor_items_are_torchvisions_images():
    for name in ("MNIST", "CIFAR10"):
        dataset = made(name)
        loader = hr.DataLoader(dataset, batch_size=None, strict=True, collate_fn=lambda pair: pair)
        for (image, label), (theirs, number) in zip(loader, dataset, strict=False):
            assert (image.mode, image.size, label) == (theirs.mode, theirs.size, number)
            assert image.tobytes() == theirs.tobytes()
        loader.close()


def test_draws_and_keys_equal_those_of_a_folder_of_the_same_images(tmp_path):
    transform = v1.Compose([v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip(), v1.ToTensor()])
    dataset = made("CIFAR10", transform)
    dataset.targets = sorted(dataset.targets)
    for number, label in enumerate(dataset.targets):
        (tmp_path / str(label)).mkdir(exist_ok=True)
        image = v1.functional.to_pil_image(dataset.data[number])
        image.save(tmp_path / str(label) / f"{number:03}.png")
    folder = datasets.ImageFolder(tmp_path, transform)
    both = []
    for one in (dataset, folder):
        torch.manual_seed(7)
        loader = hr.DataLoader(one, batch_size=16, shuffle=True, strict=True)
        both.append(batches(loader) + batches(loader))
        loader.close()
    for one, other in zip(*both, strict=True):
        assert torch.equal(one[0], other[0])


def test_a_loader_over_a_torchvision_dataset_resumes_from_a_state():
    transform = v1.Compose([v1.RandomCrop(28, padding=2), v1.ToTensor()])
    dataset = made("FashionMNIST", transform)
    loader = hr.DataLoader(dataset, batch_size=8, shuffle=True, seed=3, strict=True)
    torch.manual_seed(3)
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    expected = [images for images, _ in steps]
    again = hr.DataLoader(dataset, batch_size=8, shuffle=True, seed=3, strict=True)
    again.load_state_dict(state)
    found = [images for images, _ in again]
    assert all(map(torch.equal, found, expected))
    assert len(found) == len(expected)
    loader.close()
    again.close()


class _OwnItems(datasets.MNIST):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], 7


def test_a_changed_torchvision_dataset_is_left_to_its_own_code():
    ToTensor = v1.ToTensor()
    changed = made("CIFAR10", ToTensor)
    changed.data = changed.data.astype(np.float32)
    targets = made("MNIST", ToTensor)
    targets.target_transform = lambda label: label + 1
    own = made("MNIST", ToTensor)
    own.__class__ = _OwnItems
    unlabelled = made("STL10", ToTensor)
    unlabelled.labels = None
    for dataset, says in (
        (changed, "data that is not torchvision's"),
        (targets, "target_transform"),
        (own, "__getitem__ of its own"),
        (unlabelled, "no list of ints"),
    ):
        from headrace._torch.samples import Contents

        with pytest.raises(errors.UnsupportedError, match=says):
            Contents(dataset)
    loader = hr.DataLoader(targets, batch_size=8)
    said = loader.explain()
    assert said.native
    theirs = torch.utils.data.DataLoader(targets, batch_size=8)
    for one, other in zip(loader, theirs, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
    loader.close()


def test_labels_of_cifar_keep_another_dtype():
    dataset = made("CIFAR10", v1.ToTensor())
    dataset.targets = np.array(dataset.targets, np.int32)
    with contextlib.closing(hr.DataLoader(dataset, batch_size=8)) as loader:
        theirs = torch.utils.data.DataLoader(dataset, batch_size=8)
        for (_, found), (_, expected) in zip(loader, theirs, strict=True):
            assert torch.equal(found, expected)
            assert found.dtype == expected.dtype == torch.int32


def test_a_tensor_moved_to_shared_memory_is_still_read_correctly():
    dataset = made("MNIST", v1.PILToTensor())
    expected = dataset.data[:, None].clone()
    with contextlib.closing(hr.DataLoader(dataset, batch_size=10, strict=True)) as loader:
        batches = iter(loader)
        found = [next(batches)[0]]
        dataset.data.share_memory_()
        found += [images for images, _ in batches]
        assert torch.equal(torch.cat(found), expected)
        assert torch.equal(torch.cat([images for images, _ in loader]), expected)


def test_labels_and_data_replaced_between_epochs_take_effect():
    dataset = made("CIFAR10", v1.ToTensor())
    loader = hr.DataLoader(dataset, batch_size=60, strict=True)
    assert next(iter(loader))[1].tolist() == dataset.targets
    dataset.targets = [label ^ 1 for label in dataset.targets]
    assert next(iter(loader))[1].tolist() == dataset.targets
    dataset.data = dataset.data[::-1]
    assert torch.equal(next(iter(loader))[0][0], v1.ToTensor()(dataset.data[0].copy()))
    loader.close()


def of_numpy(images):
    images.numpy()[3:] ^= 255


def shifted(images):
    images[1:] = images[:-1].clone()


CHANGES = {
    "zeros": torch.Tensor.zero_,
    "a part": shifted,
    "a view": lambda images: images[7:8, 2:5].fill_(9),
    "the last byte": lambda images: images[-1, -1, -1].bitwise_not_(),
    "a NumPy array of its memory": of_numpy,
    "without a count of changes": lambda images: images.data.add_(1),
}


@pytest.mark.parametrize("lies", ["plain", "steps"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_in_place_changes_of_a_tensors_pixels_take_effect_at_the_next_iteration(change, lies):
    dataset = made("MNIST", v1.ToTensor())
    if lies == "steps":
        dataset.data = dataset.data.repeat(1, 1, 2)[:, :, ::2]
    theirs = torch.utils.data.DataLoader(dataset, batch_size=20)
    with contextlib.closing(hr.DataLoader(dataset, batch_size=20, strict=True)) as loader:
        assert len(batches(loader)) == 3
        for _ in range(2):
            change(dataset.data)
            expected = batches(theirs)
            for found, wanted in zip(batches(loader), expected, strict=True):
                assert torch.equal(found[0], wanted[0])
                assert torch.equal(found[1], wanted[1])


def test_pixels_and_labels_changed_during_an_iteration_take_effect_at_the_next_one():
    for name in ("MNIST", "CIFAR10", "SVHN"):
        dataset = made(name, v1.ToTensor(), rows=600)
        kept = dataset.targets if name != "SVHN" else dataset.labels
        with contextlib.closing(hr.DataLoader(dataset, batch_size=2, strict=True)) as loader:
            for change in ("pixels", "labels"):
                iteration = iter(loader)
                next(iteration)
                if change == "pixels":
                    dataset.data[:] = 0
                else:
                    kept[:] = [7] * 600 if isinstance(kept, list) else 7
                assert len(list(iteration)) == 299
                for images, labels in loader:
                    assert not images.any()
                    assert change == "pixels" or labels.tolist() == [7, 7]


class _Listed(torch.utils.data.Sampler):
    """A sampler that gives the indices it was made with."""

    def __init__(self, indices: list) -> None:
        self._indices = indices

    def __iter__(self):
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


def test_an_index_of_any_integer_type_gives_its_image_and_one_out_of_range_is_named():
    made = datasets.CIFAR10.__new__(datasets.CIFAR10)
    transform = v1.ToTensor()
    datasets.VisionDataset.__init__(made, "/nowhere", transform=transform)
    made.data = np.random.default_rng(1).integers(0, 256, (20, 32, 32, 3), np.uint8)
    made.targets = list(range(20))
    for indices in (
        [3, -1, 0, 19, 3, 3, -20],
        [np.int64(3), np.uint8(7), True, torch.tensor(5), -2],
        [4, np.int32(-3), 4, 4],
    ):
        labels = [
            label
            for _, batch in hr.DataLoader(made, 3, sampler=_Listed(indices), strict=True)
            for label in batch.tolist()
        ]
        assert labels == [int(index) % 20 for index in indices]
    for wrong, kind in ((20, IndexError), (2**70, IndexError), (-21, IndexError), (1.0, TypeError)):
        with pytest.raises(kind, match="2" if kind is IndexError else "float"):
            list(hr.DataLoader(made, 3, sampler=_Listed([1, wrong]), strict=True))

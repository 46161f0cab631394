"""Links in an image folder, compared with torchvision's listing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torchvision import datasets

import headrace as hr
import images


@pytest.mark.parametrize("link", ["c", "a/up", "a/deep/up"])
def test_a_link_to_the_root_repeats_no_image_and_labels_are_torchvisions(
    tmp_path: Path, link: str
) -> None:
    names = ["a/1.jpg", "a/deep/2.jpg", "d/3.jpg"]
    images.write_tree(tmp_path, {name: images.png(4, 4, 2) for name in names})
    once = datasets.ImageFolder(str(tmp_path)).samples
    target = os.path.relpath(tmp_path, (tmp_path / link).parent)
    os.symlink(target, tmp_path / link)
    theirs = datasets.ImageFolder(str(tmp_path))
    assert len(theirs) > 3, "torchvision repeats them"
    mine = hr.Dataset(tmp_path)
    assert [mine.facts(i)["path"] for i in range(len(mine))] == [path for path, _ in once]
    assert mine.classes == theirs.classes
    labels = dict(theirs.samples)
    assert all(labels[sample.path] == sample.label for sample in mine)
    assert hr.pack(tmp_path, tmp_path.with_suffix(".hr"))["rows"] == 3

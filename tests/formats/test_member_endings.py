"""Images from containers are packed as members whose extension matches their content."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headrace as hr
import images

ENDINGS = {
    "JPEG": "jpg",
    "PNG": "png",
    "PPM": "ppm",
    "WEBP": "webp",
    "BMP": "bmp",
    "GIF": "gif",
    "TIFF": "tiff",
}


@pytest.mark.parametrize("form", ENDINGS)
def test_an_image_of_a_container_is_packed_with_the_extension_of_its_content(
    tmp_path: Path, form: str
) -> None:
    made = io.BytesIO()
    picture = Image.fromarray(images.pixels(20, 12, seed=3))
    picture.save(made, form)
    source = tmp_path / "photos.tar"
    with tarfile.open(source, "w") as archive:
        for name, content in (("a/1.img", made.getvalue()), ("a/1.cls", b"4")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    hr.pack(source, tmp_path / "packed.hr")
    ending = ENDINGS[form]
    assert list(images.members(tmp_path / "packed.hr")) == [f"a/1.{ending}"]
    with hr.Dataset(tmp_path / "packed.hr") as dataset, Image.open(made) as opened:
        sample, facts = dataset[0], dataset.facts(0)
        assert (sample.key, sample.label) == ("a/1", 4)
        assert facts["codec"] == form.lower()
        assert dataset.info["counts"]["codec"] == {form.lower(): 1}
        assert np.array_equal(sample.image, np.asarray(opened.convert("RGB")))

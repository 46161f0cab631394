"""One sample of a dataset, and which sample's bytes a decoder refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Sample(tuple[Any, int]):
    """One sample, which unpacks as ``image, label``.

    Attributes:
        image: NumPy array of uint8, shape (height, width, 3), RGB.
        label: the class number, -1 for none.
        key: the sample's name, unique in its dataset, or in its part of a concatenation. In a
            folder without an index, files that differ only in their extension have the same key.
            It is text: bytes of a file name that are not UTF-8 are escaped.
        path: the file that holds the sample, as ``open`` accepts it: a shard, or the image itself.
        fields: the values of the sample's fields, by name.
    """

    key: str
    path: str
    fields: dict[str, Any]

    @property
    def image(self) -> NDArray[np.uint8]:
        return cast("NDArray[np.uint8]", self[0])

    @property
    def label(self) -> int:
        return self[1]


Sample.__module__ = "headrace.dataset"  # its home for users, and so for pickles and help()


def tell_whose(failure: HeadraceError, number: int, facts: Mapping[str, Any]) -> None:
    """Adds file and sample to an error of the decoder, which saw only bytes.

    Args:
        number: the sample's index.
        facts: what the dataset's index says of the sample.
    """
    if failure.file is not None:
        return
    failure.file, failure.record = facts["path"], number
    inside = failure.offset if failure.offset is not None else 0
    failure.offset = int(facts["offset"]) + inside
    reason = failure.reason.removeprefix(f"at byte {inside}: ")  # the new reason repeats it
    failure.reason = (
        f"{failure.file}: record {failure.record} ({facts['key']}) at byte "
        f"{failure.offset}: {reason}"
    )

"""Translates transforms of torchvision v1 and v2, timm and open_clip to ``headrace.transforms``.

A transform is translated only if equal parameters give equal bytes (GaussianBlur: within one,
because its bytes in torchvision depend on the CPU). Anything else ends the translation there and is
left to Python: another class, a subclass, an argument without an equal in the engine, an op that
rounds otherwise on a tensor than on a PIL image.

None of the three is ever imported: a program that has one of their transforms has imported it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace._batch import mixing
from headrace._translate import registered
from headrace._translate.libraries import package_of
from headrace._translate.parts import Part, altered, divide, parts
from headrace._translate.reader import Reader
from headrace._translate.result import Translation
from headrace.errors import ArgumentError, UnsupportedError


def from_torchvision(compose: Any) -> Translation:
    """Translates a torchvision pipeline into ``headrace.transforms``, which the engine runs.

    Args:
        compose: a ``Compose`` of ``torchvision.transforms`` or ``torchvision.transforms.v2``, a
            ``torch.nn.Sequential`` of them, or a single transform. It may contain timm's and
            open_clip's transforms of PIL images, as ``timm.data.create_transform`` and
            ``open_clip.image_transform`` compose them, and objects of your own classes that were
            registered (``headrace.register``).

    Returns:
        a list of ``headrace.transforms`` with the attributes ``dtype``, ``scale`` and
        ``keywords``, for ``hr.Loader(path, **hr.from_torchvision(compose).keywords)``. Its
        ``repr`` shows them. A pipeline that ends in a PIL image gives the same values as uint8.

    Raises:
        UnsupportedError: a transform has no translation; the sentence names it and says why.
    """
    found = translate(compose)
    if found.rest:
        raise UnsupportedError(found.obstacle)
    return found


def translate(
    pipeline: Any, grey: bool = False, size: tuple[int, int] | None = None
) -> Translation:
    """Does what ``from_torchvision`` does, but leaves what follows the last known transform in
    ``rest``.

    grey: whether the images have one channel, which the first step then says.
        size: height and width of all images, if they are equal.
        size: height and width of all images, where they are alike.
    """
    if isinstance(pipeline, Translation):
        return pipeline
    reader, found = Reader().of(grey, size), list(parts(pipeline))
    for number, part in enumerate(found):
        reason = reader.read(part)
        if reason:
            return _begun(found, number, reason, Reader().of(grey, size))
    made = reader.finish()
    made.taken = [part.op for part in found]
    return made


def _begun(found: list[Part], number: int, reason: str, reader: Reader) -> Translation:
    """Translates a pipeline as far as the engine takes it, if a part has no translation."""
    first, rest = divide(found, number)
    failed = found[number].op
    for part in found[:first]:
        reader.read(part)
    made = reader.finish()
    made.rest, made.reason = rest, reason
    made.taken = [part.op for part in found[:first]]
    made.alone = _stands_alone(found[number])
    if rest[0] is not failed:
        made.reason = f"{type(failed).__name__} in what it equals has none: {reason}"
    return made


def _stands_alone(part: Part) -> bool:
    """Whether a part is not related to anything known: by registration, as a child or as a change.

    The sentence about such a part says why it is not translated, and the user should see it.
    """
    kind = type(part.op)
    if part.whole is not None or part.reason or altered(part.op) or registered.is_akin(kind):
        return False
    owners = [package_of(parent.__module__) for parent in kind.__mro__]
    others = ("torchvision", "timm", "open_clip")
    return owners[0] in others or not any(owner in others for owner in owners)


def of_transforms(steps: Sequence[Any]) -> Translation:
    """Returns a list that is already in Headrace's terms, as ``hr.Loader`` takes it: float32.

    Raises:
        ArgumentError: something in it is not one of ``headrace.transforms``, or takes whole
        batches.
    """
    made = Translation()
    made.dtype, made.gives = "float32", "tensor"
    for step in steps:
        if not isinstance(step, dict) and not hasattr(step, "to_dict"):
            raise ArgumentError(
                f"transform: {step!r} is not from headrace.transforms; give torchvision's in "
                "a Compose"
            )
        made.add(step)
    if mixing.mixes([step if isinstance(step, dict) else step.to_dict() for step in steps]):
        raise ArgumentError(
            "transform: MixUp and CutMix work on whole batches; hr.Loader runs them natively, and "
            "with a DataLoader torchvision's belong in collate_fn"
        )
    return made

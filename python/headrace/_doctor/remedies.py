"""What would make it faster: each remedy tried on some of the images, or worked out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace._doctor import choosing, decoding, verdict
from headrace.dataset import Dataset
from headrace.errors import HeadraceError

_COPIES, _COPY_BYTES = 64, 48 << 20
_SECONDS = 0.7
# Images are told to be larger than needed from so many times the crop on.
_OVERSIZED = 2.0
_RESIZED = 256 / 224


class Trials:
    """The rates of decoding that remedies give, by those of the same images as they are."""

    def __init__(
        self, dataset: Dataset, chosen: list[int], batch_size: int, transform: list[Any]
    ) -> None:
        self._dataset, self._chosen = dataset, chosen
        self._batch_size, self._transform = min(batch_size, 32), transform
        self.failed: list[str] = []

    def rate(self, dataset: Dataset, chosen: list[int], **options: Any) -> float:
        """Images by second of CPU time: only to be compared with one another."""
        transform = options.pop("transform", self._transform)
        found = decoding.measure(dataset, chosen, self._batch_size, transform, _SECONDS, **options)
        return float(1 / max(found["cpu_s"], 1e-9))

    def forms(self, forms: Mapping[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
        """By form, how many times faster it decodes than the images as they are, and its bytes
        by theirs."""
        found = {}
        with choosing.copied(self._dataset, self._chosen, _COPY_BYTES) as (folder, copies):
            if not copies:
                return {}
            chosen = self._chosen[:copies]
            files = sum(file.stat().st_size for file in (folder / "files" / "all").iterdir())
            self.rate(self._dataset, chosen)  # what is learned of files is learned here
            now = self.rate(self._dataset, chosen)
            for name, how in forms.items():
                try:
                    made = choosing.packed(folder, name, **how)
                    with Dataset(made) as packed:
                        faster = self.rate(packed, list(range(len(packed)))) / now
                        found[name] = (faster, choosing.bytes_of(made) / files)
                except HeadraceError as failure:
                    self.failed.append(f"{name} was not tried: {failure}")
        return found


def find(
    dataset: Dataset,
    chosen: list[int],
    facts: dict[str, Any],
    stages: dict[str, float | None],
    asked: dict[str, Any],
    transform: list[Any],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Remedies for the slowest stage, the best one first, and what could not be tried."""
    name, _ = verdict.limit(stages, asked["rate"])
    if name == "none" or name == "training":
        return [], []
    some = [chosen[at] for at in choosing.numbers(len(chosen), _COPIES)]
    trials = Trials(dataset, some, asked["batch_size"], transform)
    found: list[dict[str, Any] | None] = []
    if name == "decoding":
        found += _of_decoding(trials, dataset, some, facts, stages, asked, transform)
    elif name == "storage":
        found += _of_storage(trials, facts, stages, asked)
    elif name == "delivery":
        found.append(_of_delivery(stages, asked))
    told = [one for one in found if one is not None]
    return sorted(told, key=lambda one: -one["gain"]), trials.failed


def _forms(facts: dict[str, Any], asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The forms of packing that may help these images."""
    images = facts["images"]
    forms: dict[str, dict[str, Any]] = {}
    if images["kind"] == "array":
        return forms
    if images["progressive"] > 0:
        forms["pack --baseline"] = {"baseline": True}
    elif images["kind"] != "packed" or (images["seek_points"] or 0) < 0.5:
        forms["pack"] = {}
    side, shorter = asked["size"], images["shorter_side"]
    if shorter and shorter >= _OVERSIZED * side * _RESIZED:
        resize = round(side * _RESIZED)
        forms[f"pack --resize {resize}"] = {"resize": resize}
    if images["png"] > 0.5:
        forms["pack --quality 90"] = {"quality": 90}
    return forms


def _of_decoding(
    trials: Trials,
    dataset: Dataset,
    some: list[int],
    facts: dict[str, Any],
    stages: dict[str, float | None],
    asked: dict[str, Any],
    transform: list[Any],
) -> list[dict[str, Any] | None]:
    now = stages["decoding"] or 0.0
    found = []
    for form, (faster, ratio) in trials.forms(_forms(facts, asked)).items():
        lossy = ", which loses" if "resize" in form or "quality" in form else ""
        text = f"headrace {form}{lossy}"
        changed = {"decoding": now * faster, "storage": _read(facts, ratio)}
        found.append(verdict.remedy(text, stages, changed, True))
    exact = trials.rate(dataset, some)
    fast = trials.rate(dataset, some, mode="fast") / exact
    found.append(verdict.remedy('mode="fast"', stages, {"decoding": now * fast}, True))
    plain = [step for step in transform if step.get("name") != "Normalize"]
    small = trials.rate(dataset, some, dtype="uint8", transform=plain) / exact
    text = 'dtype="uint8", and normalising on the GPU'
    found.append(verdict.remedy(text, stages, {"decoding": now * small}, True))
    found += _of_cores(facts, stages)
    return found


def _of_cores(
    facts: dict[str, Any], stages: dict[str, float | None]
) -> list[dict[str, Any] | None]:
    machine, now = facts["machine"], stages["decoding"] or 0.0
    allowed, found = machine["cores_allowed"], []
    others, own = machine["cores_others"] or 0.0, machine["cores_own"] or 0.0
    wanted = min(allowed, facts["decoding"]["all"]["threads"])
    if others > 0.1 * allowed and 0 < own < wanted:
        text = f"end the other programs, which keep {others:.1f} of {allowed} cores busy"
        found.append(verdict.remedy(text, stages, {"decoding": now * wanted / own}, False))
    quota = machine["cpu_quota"]
    most = machine["cores_of_machine"]
    usable = min(allowed, quota or allowed)
    if most > usable:
        text = f"allow this process all {most} cores of the machine; it may use {usable:g}"
        found.append(verdict.remedy(text, stages, {"decoding": now * most / usable}, False))
    return found


def _of_storage(
    trials: Trials,
    facts: dict[str, Any],
    stages: dict[str, float | None],
    asked: dict[str, Any],
) -> list[dict[str, Any] | None]:
    storage, found = facts["storage"], []
    cold = storage["cold"]
    if facts["fits_in_memory"] and storage["warm"]:
        warm = max(storage["warm"]["images_per_second"], stages["storage"] or 0.0)
        text = "nothing, from the second epoch on: the dataset fits into the page cache"
        found.append(verdict.remedy(text, stages, {"storage": warm}, True))
    if cold is None:
        return found
    size = round(asked["size"] * _RESIZED)
    for form, (_, ratio) in trials.forms({f"pack --resize {size}": {"resize": size}}).items():
        text = f"headrace {form}, which loses: {ratio:.2f} of the bytes"
        found.append(verdict.remedy(text, stages, {"storage": _read(facts, ratio)}, False))
    return found


def _read(facts: dict[str, Any], ratio: float) -> float | None:
    """Images a second that storage gives of records with a share of the bytes."""
    storage = facts["storage"]
    cold, warm = storage["cold"], storage["warm"]
    slow = cold and verdict.smaller_reads(
        cold["images_per_second"], cold["head_images_per_second"], ratio
    )
    return verdict.from_storage(
        storage["cached_share"], slow, warm and warm["images_per_second"] / ratio
    )


def _of_delivery(stages: dict[str, float | None], asked: dict[str, Any]) -> dict[str, Any] | None:
    larger = max(64, asked["batch_size"] * 4)
    now = stages["delivery"] or 0.0
    times = larger / asked["batch_size"]
    text = f"batch_size={larger}: what a batch costs is the same for a larger one"
    return verdict.remedy(text, stages, {"delivery": now * times}, False)

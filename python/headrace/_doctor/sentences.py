"""The doctor's findings in sentences."""

from __future__ import annotations

from typing import Any

from headrace._doctor import machine
from headrace._doctor.report import a_second, size, table

_LITTLE_MEMORY = 2 << 30
_DISTURBED = 0.8  # of the rate of cold reads; warm ones of a fast disk may vary by less


def lines(answer: dict[str, Any]) -> list[str]:
    """The verdict first, then remedies, what was measured, and notes."""
    measured, rate = answer["measured"], answer["asked"]["rate"]
    said = [_verdict(answer["limit"], measured, rate)]
    for number, remedy in enumerate(answer["remedies"], 1):
        how = "measured" if remedy["measured"] else "worked out"
        said.append(
            f"  {number}. {remedy['text']}: {remedy['gain']:.2f}x, "
            f"{a_second(remedy['images_per_second'])} images/s ({how})"
        )
    if not answer["remedies"] and answer["limit"] not in ("none", "training"):
        said.append("  No remedy that was tried brings more than 3 %.")
    said += table(_figures(measured))
    return said + [f"Note: {note}." for note in answer["notes"]]


def _verdict(limit: str, measured: dict[str, Any], rate: float | None) -> str:
    slowest = measured["images_per_second"]
    asked = f" of the {a_second(rate)} asked for" if rate is not None else ""
    if limit == "none":
        if rate is None:
            return "none: no stage could be measured in this time"
        return f"none: {a_second(slowest)} images/s come here, and {a_second(rate)} were asked for"
    if limit == "decoding" and "threads" in measured:
        threads = measured["threads"]
        who = f"{threads} thread{'s' * (threads > 1)} give"
        return f"decoding: {who}{'s' * (threads == 1)} {a_second(slowest)} images/s{asked}"
    return f"{limit}: {a_second(slowest)} images/s{asked}"


def _figures(measured: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name in ("storage", "decoding", "delivery", "copy", "training"):
        value = measured.get(name)
        said = "not measured" if value is None else f"{a_second(value)} images/s"
        rows.append((name, said + _more(name, measured)))
        if name == "storage":
            rows += _depths(measured.get("storage_cold"))
    if "waiting_for" in measured:
        parts = [f"{cause} {share * 100:.0f} %" for cause, share in measured["waiting_for"].items()]
        said = f"{measured['waiting_share'] * 100:.0f} % of the training's time is for data"
        rows.append(("waiting", said + (f": {', '.join(parts)}" if parts else "")))
    return rows


def _depths(cold: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Says what more cold reads at once give."""
    if cold is None or cold["how"] == "memory" or len(cold["depths"]) < 2:
        return []
    (fewest, one), *others = cold["depths"].items()
    first = f"cold {a_second(one['images_per_second'])} images/s with {fewest} at once"
    rest = (f"{a_second(found['images_per_second'])} with {at_once}" for at_once, found in others)
    return [("reads", ", ".join([first, *rest]))]


def _more(name: str, measured: dict[str, Any]) -> str:
    if name == "decoding" and measured.get("decoding_one_core"):
        return f"; {a_second(measured['decoding_one_core'])} with one thread"
    if name == "storage" and measured.get("storage_cold"):
        cold, warm = measured["storage_cold"], measured["storage_warm"]
        share = measured["cached_share"]
        known = "not known" if share is None else f"{share * 100:.0f} %"
        if cold["how"] == "memory":
            return (
                f"; {a_second(cold['megabytes_per_second'])} MB/s, a read "
                f"{cold['latency_p50_s'] * 1e3:,.2f} ms, from a file system in memory"
            )
        text = (
            f"; cold {a_second(cold['images_per_second'])} "
            f"({a_second(cold['megabytes_per_second'])} MB/s, "
            f"a read {cold['latency_p50_s'] * 1e3:,.2f} ms, by {cold['how']})"
        )
        if warm:
            text += f", warm {a_second(warm['images_per_second'])}"
        return f"{text}; in memory already: {known}"
    return ""


def notes(facts: dict[str, Any]) -> list[str]:
    """Says which properties of images and machine cost time, and what was not measured."""
    return [
        *_of_images(facts["images"], facts["file_system"], facts["side"]),
        *_of_damage(facts["decoding"]["all"]["replaced"]),
        *of_index(facts["index"]),
        *of_machine(facts["machine"], facts["decoding"]["all"]["threads"]),
        *of_reads(facts["storage"]),
        *of_gpus(facts["gpus"], worked=False),
        *([facts["copy"][1]] if facts["copy"][1] else []),
        "the training was not measured: doctor(loader, step) runs the step",
    ]


def of_reads(storage: dict[str, Any]) -> list[str]:
    """Says why reads have no rate, or that something else disturbed them."""
    cold, warm = storage["cold"], storage["warm"]
    said = [storage["why"]] if storage["why"] else []
    # Memory is never slower than a disk, but the two are measured one after the other.
    if cold and warm and warm["images_per_second"] < _DISTURBED * cold["images_per_second"]:
        said.append(
            "reads from memory were slower than those from storage, so other programs disturbed "
            "them: measure again when the machine is idle"
        )
    return said


def _of_damage(share: float) -> list[str]:
    if not share:
        return []
    text = (
        "of the samples are damaged or unsupported images, and others replaced them: headrace "
        "verify names them"
    )
    return [f"{max(share * 100, 0.1):,.1f} % {text}"]


def _of_images(images: dict[str, Any], file_system: str, side: int | None) -> list[str]:
    said, count = [], images["looked_at"]
    for name, share in (("progressive", images["progressive"]), ("PNG", images["png"])):
        if share > 0:
            said.append(f"{share * 100:.0f} % of {count:,} images are {name}")
    points = images["seek_points"]
    if points is not None and points < 0.5 and images["kind"] != "listed":
        said.append("most JPEGs have no seek points: headrace pack or index notes them")
    if images["kind"] == "listed":
        said.append("the folder has no index: seek points are learned as it is read")
    shorter = images["shorter_side"]
    if side and shorter and shorter > 2 * side:
        said.append(f"the shorter side is {shorter:,.0f} pixels, and {side} are taken")
    if machine.is_remote(file_system):
        said.append(f"the images are on {file_system}, behind a network or another program")
    if machine.is_in_memory(file_system):
        said.append(
            f"the images are on {file_system}, a file system in memory: no disk was measured"
        )
    return said


def of_index(index: dict[str, Any]) -> list[str]:
    """Returns notes on an index that is older than this version, or than the files it lists."""
    said, again = [], "headrace index writes it anew" if index["in_place"] else "pack it again"
    if index["written_by"]:
        said.append(f"the index is of {index['written_by']}, an older version: {again}")
    if index["changed"]:
        said.append(
            f"{index['changed']} has changed since the index was written: if files are new, they "
            "are not in it, and headrace index writes it anew"
        )
    return said


def of_gpus(found: list[dict[str, Any]], worked: bool) -> list[str]:
    """Returns notes on GPUs.

    Args:
        found: what ``gpus.look`` returned.
        worked: whether they were looked at while the training ran. Otherwise they may have been
            idle, and an idle GPU slows its link and its clock.
    """
    said = []
    for number, one in enumerate(found):
        name = f"GPU {number} ({one['name'] or 'of no name'})"
        width, most = one["link_width"], one["link_width_most"]
        if width and most and width < most:
            said.append(f"{name} is linked by {width} of {most} PCIe lanes")
        if not worked:
            continue
        if one["busy"] is not None:
            said.append(f"{name} was busy {one['busy'] * 100:.0f} % of the time of the training")
        generation, newest = one["link_generation"], one["link_generation_most"]
        if generation and newest and generation < newest:
            said.append(f"{name} is linked by PCIe {generation} where {newest} is possible")
        if one["slowed_by"]:
            said.append(f"{name} is slowed down by {' and '.join(one['slowed_by'])}")
        free, whole = one["memory_free"], one["memory_total"]
        if free is not None and whole and free < 0.05 * whole:
            said.append(f"{name} has {size(free)} of its {size(whole)} of memory left")
    return said


def of_workers(found: dict[str, Any], workers: int, wanted: int) -> list[str]:
    """Sentences about worker processes of torch's loader, which send batches in shared memory.

    Args:
        wanted: bytes of the batches that the workers make ahead.
    """
    said = []
    if workers > found["cores_usable"]:
        said.append(
            f"{workers} worker processes share {found['cores_usable']:g} cores: more of them are "
            "slower"
        )
    shared = found["shared_memory"]
    if workers and shared is not None and shared < wanted:
        said.append(
            f"/dev/shm has {size(shared)} left, and the batches that {workers} workers make ahead "
            f"take {size(wanted)}"
        )
    return said


def of_machine(found: dict[str, Any], threads: int) -> list[str]:
    """Says what properties of the machine cost time.

    Args:
        threads: decode threads in this process; 0 if unknown.
    """
    said = []
    allowed, whole = found["cores_allowed"], found["cores_of_machine"]
    if threads > found["cores_usable"] + 0.5:
        said.append(f"{threads} threads decode, and {found['cores_usable']:g} cores are granted")
    if found["ranks_unsaid"]:
        said.append(
            f"{found['ranks_unsaid']} tells of several ranks on this machine, but LOCAL_WORLD_SIZE "
            "is not set: each rank takes threads for all cores"
        )
    if found["huge_pages"] == "never":
        said.append(
            "transparent huge pages are off (never): batches lie in pages of 4 kB, and touching "
            "new ones costs more"
        )
    if allowed < whole:
        said.append(f"this process may use {allowed} of {whole} cores")
    if found["cpu_quota"] is not None:
        said.append(f"a CPU quota grants {found['cpu_quota']:g} cores")
    if found["physical_cores_allowed"] < allowed:
        said.append(f"{allowed} cores are hyper-threads of {found['physical_cores_allowed']}")
    if (found["cores_others"] or 0) > 0.1 * allowed:
        cores = f"{allowed} core{'s' * (allowed > 1)}"
        said.append(f"other programs kept {found['cores_others']:.1f} of {cores} busy")
    if (found["cores_stolen"] or 0) > 0.05 * allowed:
        said.append(f"the hypervisor took {found['cores_stolen']:.1f} cores away")
    if found["cores_others"] is None:
        told = (
            "the time was too short" if machine.tells_of_cores() else "/proc/stat is not to be read"
        )
        said.append(f"what other programs take was not measured: {told}")
    if found["swap_used"] > 0:
        said.append(f"{size(found['swap_used'])} are swapped out")
    available = found["memory_available"]
    if available is not None and available < _LITTLE_MEMORY:
        said.append(f"only {size(available)} of memory are left")
    return said

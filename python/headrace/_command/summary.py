"""Turns results into lines for a person to read, one fact a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.errors import one_line

# These are said in other words, or in a sentence of their own.
_PASSED_OVER = {"faults", "known_faults", "known", "ok", "seek_share", "lossy", "reencoded"}
_PASSED_OVER |= {"to_baseline", "through_pillow", "warnings"}
_NAMES = {"rows": "images", "seconds": "time", "seek_bytes": "seek points", "length": "bytes"}
# What a count of 0 means (docs/format.md, the columns of the index).
_NONE = {"channels": "unknown", "orientation": "none"}
_NAMES_SHOWN = 8
_FIRST = ("path", "kind", "rows")  # these say what a dataset is


def counted(number: int, one: str, many: str = "") -> str:
    """ "1 image", "2,000 images"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def lines(found: Mapping[str, Any]) -> list[str]:
    """Returns the facts of a result, with their values in one column."""
    facts: list[tuple[str, str]] = []
    first = {name: found[name] for name in _FIRST if name in found}
    for name, value in {**first, **found}.items():
        if name == "source":
            facts += _source(value, apart="doubts" in found)
        elif name == "doubts":
            facts += [("in doubt", text) for text in value]
        elif name == "fetched":
            facts.append((name, _fetched(value)))
        elif name == "counts":
            facts += [(kind, _counts(kind, parts)) for kind, parts in value.items()]
        elif name not in _PASSED_OVER:
            facts.append((_NAMES.get(name, name).replace("_", " "), _said(name, value, found)))
    width = max((len(name) for name, _ in facts), default=0)
    return [one_line(f"{name:{width}}  {text}".rstrip()) for name, text in facts]


def _said(name: str, value: Any, found: Mapping[str, Any]) -> str:
    if name == "crc32c":
        return f"{value:08x}"
    if name == "seconds":
        return f"{value:,.3g} s"
    if name == "seek_bytes" and "seek_share" in found:
        share = f"{found['seek_share'] * 100:.1f} % of the images'"
        return f"{counted(value, 'byte')}, {share}" if value else "none"
    if name == "fields" and isinstance(value, list):
        return _listed(f"{field['name']} ({field['type']})" for field in value)
    if name == "bytes" and value == -1:  # the files were not looked into
        return "not added up"
    return _words(value)


def _source(source: Mapping[str, Any], apart: bool) -> list[tuple[str, str]]:
    """Describes a container or an array, and what its columns became.

    Args:
        apart: puts each column on a line of its own.
    """
    facts = [(name, str(source.get(name) or "none")) for name in ("format", "image", "label")]
    if "layout" in source:  # an array
        facts += [(name, _words(source[name])) for name in ("layout", "dtype")]
        for name in ("shape", "chunks"):
            if source.get(name):
                facts.append((name, " x ".join(map(str, source[name]))))
        for name in ("codecs", "arrays"):
            if source.get(name):
                facts.append((name.replace("arrays", "other arrays"), _listed(source[name])))
    columns = source.get("columns") or []
    said = [f"{c['name']} ({_column(c)})" for c in columns]
    if source.get("sample"):
        facts.append(("first sample", _listed(source["sample"])))
    shown = said if apart else [", ".join(said)]
    return [*facts, *(("column" if apart else "columns", text) for text in shown if text)]


def _column(column: Mapping[str, Any]) -> str:
    """Returns a column's type, what became of it, and how many samples have it."""
    use = {"image?": "perhaps the image", "label?": "perhaps the label", "": "not used"}
    said = [column.get("type", ""), use.get(column["use"], column["use"])]
    return ", ".join([*filter(None, said), f"{column['samples']:,}"])


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        return _listed(map(str, value))
    return " ".join(str(value).split()) or "none"


def _fetched(found: Mapping[str, float]) -> str:
    """Says what the store was asked for."""
    asked = [
        counted(int(found["requests"]), "request"),
        f"{counted(int(found['bytes']), 'byte')} at {found['bytes_per_second'] / 1e6:,.3g} MB/s",
        counted(int(found["hits"]), "hit") + " of the cache",
        counted(int(found["retries"]), "retry", "retries"),
        counted(int(found["hedges"]), "hedge"),
        f"{found['waited_s']:,.3g} s waited",
    ]
    return ", ".join(asked)


def _listed(values: Iterable[str]) -> str:
    """Lists few names as they are; of many it says how many there are, and the first ones."""
    names = list(values)
    if len(names) <= _NAMES_SHOWN:
        return ", ".join(names) or "none"
    return f"{len(names):,}: {', '.join(names[:_NAMES_SHOWN])}, ..."


def _counts(kind: str, parts: Mapping[str, int]) -> str:
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(
        f"{_NONE.get(kind, name) if name == '0' else name} ({number:,})" for name, number in ordered
    )


def fault_lines(faults: Mapping[str, Any], headline: str) -> list[str]:
    """Returns the faults of a result below a headline, one line each; nothing if there are none."""
    listed, total = faults["listed"], faults["total"]
    if not total:
        return []
    said = [headline, *map(fault_line, listed)]
    if total > len(listed):
        said.append(f"... and {total - len(listed):,} more")
    return said


def known_faults(found: Mapping[str, Any]) -> list[str]:
    """Lists images that were already faulty when they were packed, if the result has any."""
    known = {"total": found.get("known_faults", 0), "listed": found.get("known") or []}
    images = counted(known["total"], "image was", "images were")
    return fault_lines(known, f"{images} faulty when packed:")


def fault_line(fault: Mapping[str, Any]) -> str:
    """File, record and offset, and what is wrong there, with what was expected and found."""
    place = str(fault["file"])
    if fault.get("record", -1) >= 0:
        place += f": record {fault['record']}"
    if fault.get("offset", -1) >= 0:
        place += f" at byte {fault['offset']}"
    parts = [f"{name} {fault[name]}" for name in ("expected", "found") if fault.get(name)]
    values = f" ({', '.join(parts)})" if parts else ""
    return f"{place}: {fault.get('text') or fault.get('reason')}{values}"


def recoding(found: Mapping[str, Any]) -> list[str]:
    """Says which images are not the original bytes, and whether they lost anything."""
    said = []
    if found.get("lossy"):
        said.append(
            f"LOSSY: {found['reencoded']:,} of {counted(found['rows'], 'image')} "
            f"{'was' if found['reencoded'] == 1 else 'were'} re-encoded ({found['lossy']}), "
            "not kept as the original."
        )
    if found.get("to_baseline"):
        said.append(
            f"{counted(found['to_baseline'], 'progressive or arithmetic-coded file')} "
            "became baseline; nothing was lost by it."
        )
    if found.get("through_pillow"):
        said.append(
            f"{counted(found['through_pillow'], 'image')} that the engine does not decode went "
            "through Pillow; the pixels are stored without loss."
        )
    if raw := found.get("raw"):
        ratio = raw["bytes"] / raw["from_bytes"]
        said.append(
            f"{counted(raw['images'], 'image')} {'is' if raw['images'] == 1 else 'are'} stored as "
            f"pixels: {raw['bytes'] / 1e6:,.1f} MB, {ratio:.2f} times the bytes of the files they "
            "came from."
        )
    return said

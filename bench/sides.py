"""Runs one row: its environment, what it reads, its process, its answer.

Each loader runs in a fresh process of its own environment (tools/peers.sh makes them), pinned to
the given cores, and is asked through bench/peers/protocol.py. A row that cannot be measured is left
out, with a sentence that says why, and the others go on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rows import Row
from sets import ImageSet

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".build" / "peers"
# The other environments are named like their modules. webdataset is in .venv, and so is torch.
ENVIRONMENTS = {"tensorflow": "tf", "webdataset": "torchvision"}
BORROWERS = ("huggingface",)  # peers that also run Headrace, which their environment lacks
# The peer that writes a container, and its variant.
WRITERS = {
    "webdataset": ("webdataset", ""),
    "tfrecord": ("tensorflow", ""),
    "recordio": ("recordio", ""),
    "mds": ("mosaic", ""),
    "lmdb": ("lmdb", ""),
    "arrow": ("huggingface", ""),
    "parquet": ("huggingface", "parquet"),
    "snappy parquet": ("huggingface", "snappy"),
    "litdata": ("litdata", ""),
    "zstd litdata": ("litdata", "zstd"),
}
TIMEOUT_S = 600
RAW_SHORTER = 256


class LeftOut(Exception):
    """The reason why a row is not measured."""


class Sides:
    """What rows run on: cores, prepared files of the sets in `work`, packed ones in `scratch`."""

    def __init__(self, cores: Sequence[int], work: Path, scratch: Path) -> None:
        self.cores, self.work, self.scratch = list(cores), work, scratch
        self.sources: dict[tuple[str, str], tuple[Path, str]] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self._kernel: Path | None = None

    def check(self, row: Row) -> None:
        """Raises LeftOut if the row's loader is not installed."""
        if row.peer == "kernel":
            self.kernel()
        elif not Path(python_of(row.peer)).exists():
            raise LeftOut(f"no environment {python_of(row.peer)}: `make bench-peers` makes it")

    def source(self, row: Row, images: ImageSet) -> tuple[Path, str]:
        """What the row reads, which is made at its first use, and the variant for its module."""
        wanted = (row.form, images.name)
        if wanted in self.refused:
            raise LeftOut(self.refused[wanted])
        if wanted not in self.sources:
            try:
                self.sources[wanted] = self._make(row.form, images)
            except LeftOut as reason:
                self.refused[wanted] = str(reason)
                raise
        path, variant = self.sources[wanted]
        return path, variant or row.variant

    def _make(self, form: str, images: ImageSet) -> tuple[Path, str]:
        name = images.folder.name
        if form == "folder":
            return images.folder, ""
        if form in WRITERS:
            peer, variant = WRITERS[form]
            return self._prepared(peer, images, f"{name}.{form.replace(' ', '-')}", variant), ""
        if form == "zip":
            return self._zip(images), ""
        if form == "beton":
            return self._prepared("ffcv", images, f"{name}.beton", ""), ""
        if form == "beton raw":
            return self._prepared("ffcv", images, f"{name}-raw.beton", "raw"), ""
        if form == "q90 folder":
            beton = self._prepared("ffcv", images, f"{name}.beton", "")
            return beton.with_suffix(".folder"), ""
        return self._headrace(form, images)

    def _zip(self, images: ImageSet) -> Path:
        """Returns a zip of the stored files."""
        file = self.work / "prepared" / f"{images.folder.name}.zip"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            with zipfile.ZipFile(partial, "w") as archive:
                for path in sorted(images.folder.rglob("*.jpg")):
                    archive.write(path, path.relative_to(images.folder))
            partial.rename(file)
        return file

    def _headrace(self, form: str, images: ImageSet) -> tuple[Path, str]:
        import headrace as hr
        from headrace.errors import UnsupportedError

        place = self.scratch / f"{images.folder.name}-{form.replace(' ', '-')}"
        if form.startswith("index of "):
            source, _ = self._make(form.removeprefix("index of "), images)
            hr.index(source, place.with_suffix(".hr"))
            return place.with_suffix(".hr"), ""
        if form == "indexed":
            hr.index(images.folder, index_dir=place)
            return images.folder, str(place)
        folder, arguments = images.folder, {}
        if form == "packed no seek":
            arguments = {"seek": False}
        elif form == "packed raw":
            arguments = {"resize": RAW_SHORTER, "raw": True}
        elif form == "packed q90":
            folder, _ = self._make("q90 folder", images)
        elif form != "packed":
            raise ValueError(form)
        try:
            hr.pack(folder, place, **arguments)
        except (TypeError, UnsupportedError) as error:
            raise LeftOut(f"headrace.pack refuses {arguments}: {error}") from error
        return place, ""

    def _prepared(self, peer: str, images: ImageSet, name: str, variant: str) -> Path:
        """Returns a peer's own file of a set: it is made once, and again when the set changes."""
        file = self.work / "prepared" / name
        made = file.with_name(file.name + ".made")
        if made.exists():
            return file
        if not Path(python_of(peer)).exists():
            raise LeftOut(f"{name} needs {peer}'s environment, which `make bench-peers` makes")
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        if peer == "ffcv":  # it stores its JPEGs beside its file
            shutil.rmtree(file.with_suffix(".folder"), ignore_errors=True)
        print(f"preparing {name}", flush=True)
        arguments = ["--prepare", str(file), "--variant", variant]
        self._ask(peer, images.folder, arguments, answers=0)
        made.touch()
        return file

    def measure(
        self, row: Row, images: ImageSet, seconds: float, batches: int
    ) -> list[dict[str, Any]]:
        """Returns the answers of one fresh process, one for each of the row's minimum scales."""
        source, variant = self.source(row, images)
        cores = self.cores[: row.threads or len(self.cores)]
        if row.peer == "kernel":
            return self._measure_kernel(row, source, cores, seconds)
        arguments = ["--task", row.task, "--dtype", row.dtype, "--size", str(row.size)]
        arguments += ["--min-scale", *map(str, row.scales), "--cores", *map(str, cores)]
        arguments += ["--batch-size", str(row.batch_size), "--warm-up", str(row.warm_up)]
        arguments += ["--batches", str(batches), "--seconds", str(seconds)]
        arguments += ["--mode", row.mode, "--variant", variant]
        with tempfile.TemporaryDirectory(dir=self.scratch) as place:
            cache = place if row.cache == "own" else row.cache
            answers = self._ask(row.peer, source, arguments, len(row.scales), cache)
        for answer in answers:
            if "refused" in answer:
                raise LeftOut(answer["refused"])
        return answers

    def _ask(
        self, peer: str, source: Path, arguments: Sequence[str], answers: int, cache: str = "off"
    ) -> list[dict[str, Any]]:
        command = [python_of(peer), "-m", f"peers.{peer}", str(source), *arguments]
        environment = {**os.environ, "HEADRACE_CACHE": cache}
        paths = [str(ROOT / "bench")]
        if peer in ("headrace", "programs") and "PYTHONPATH" in environment:
            paths.append(environment["PYTHONPATH"])
        elif peer in BORROWERS:
            import headrace

            paths.append(str(Path(headrace.__file__).parent.parent))
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        lines = _run(command, environment, self.cores)
        found = [json.loads(line) for line in lines if line.startswith("{")]
        if len(found) != answers:
            raise LeftOut(f"{peer} gave {len(found)} answers, {answers} were expected")
        return found

    def kernel(self) -> Path:
        """Returns the program of bench/kernel."""
        if self._kernel is None:
            if shutil.which("go") is None:
                raise LeftOut("no Go to build bench/kernel with")
            program = self.scratch / "kernel"
            command = ["go", "build", "-o", str(program), "./bench/kernel"]
            subprocess.run(command, cwd=ROOT, check=True)
            self._kernel = program
        return self._kernel

    def _measure_kernel(
        self, row: Row, source: Path, cores: Sequence[int], seconds: float
    ) -> list[dict[str, Any]]:
        command = [str(self.kernel()), "-threads", str(len(cores)), "-for", f"{seconds}s"]
        command += ["-task", row.task, "-dtype", row.dtype, "-size", str(row.size)]
        command += [f"-seek={str(row.variant != 'no seek').lower()}"]
        found = []
        for scale in row.scales:
            lines = _run(
                [*command, "-min-scale", str(scale), str(source)],
                dict(os.environ),
                cores,
            )
            found.append(json.loads(lines[-1]))
        return found


def python_of(peer: str) -> str:
    """Returns the interpreter of a peer's environment; for Headrace, that of this program."""
    if peer in ("headrace", "programs", "recordio"):  # the last one needs no packages
        return sys.executable
    return str(PEERS / ENVIRONMENTS.get(peer, peer) / "bin" / "python")


def _run(command: Sequence[str], environment: dict[str, str], cores: Sequence[int]) -> list[str]:
    """The lines that a program printed. When this returns, it and what it started are gone."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # the program inherits it
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, ours)
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LeftOut(f"no answer within {TIMEOUT_S} s") from None
    finally:
        _end_group(process)
    if process.returncode:
        last = [line for line in errors.splitlines() if line.strip()][-1:]
        raise LeftOut(f"exit status {process.returncode}: {''.join(last)[:300]}")
    return output.splitlines()


def _end_group(process: subprocess.Popen[str]) -> None:
    """Ends a program's workers, which stay behind after an early exit."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        return
    process.wait()

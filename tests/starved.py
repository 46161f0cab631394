"""Children that do one thing with few threads or little address space, and report the outcome.

A process imports headrace, does not use it, and forks a child for each request: a line of JSON. So
each child begins the engine by itself, in a tenth of the time that an interpreter takes to start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: F401  (a limit would stop it half way)

import headrace as hr
from headrace._engine.decoder import Decoder, File, Task

STEPS = [hr.transforms.RandomResizedCrop(24)]


def epoch(source: str, threads: int) -> str:
    """The bytes of an epoch as a hash."""
    found = hashlib.sha256()
    with hr.Loader(
        source, 5, transform=STEPS, num_threads=threads, shuffle=True, output="numpy"
    ) as loader:
        for images, labels in loader:
            found.update(images.tobytes() + labels.tobytes())
    return found.hexdigest()


def loaders(source: str, threads: int) -> str:
    """Six loaders at once, a batch of each in turn."""
    found = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(hr.Loader(source, 5, transform=STEPS, num_threads=threads, seed=n))
            for n in range(6)
        ]
        for batches in zip(*opened, strict=True):
            for images, labels in batches:
                found.update(images.numpy().tobytes() + labels.numpy().tobytes())
    return found.hexdigest()


def samples(source: str, threads: int) -> str:
    """An epoch of samples of any size, made by DataLoader's own threads, as a hash."""
    found = hashlib.sha256()
    steps = [hr.transforms.Resize(20)]
    loader = hr.DataLoader(
        hr.Dataset(source), 5, transform=steps, num_workers=threads, collate_fn=list
    )
    for batch in loader:
        for image, label in batch:
            found.update(np.asarray(image).tobytes() + bytes([int(label)]))
    loader.close()
    return found.hexdigest()


def verify(source: str, threads: int) -> str:
    return str(hr.verify(source, decode=True, num_threads=threads)["rows"])


def pack(source: str, threads: int) -> str:
    # If memory is too short to list it, the process that made the parent removes it.
    parent = Path(source).with_name("made")
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as directory:
        place = Path(directory, "packed.hr")
        return str(
            hr.pack(Path(source).with_name("photos"), place, num_threads=threads)["fingerprint"]
        )


def decode(source: str, threads: int) -> str:
    """One image in the calling thread."""
    del threads
    first = sorted(Path(source).with_name("photos").rglob("*.jpg"))[0]
    return hashlib.sha256(hr.functional.decode(first.read_bytes()).tobytes()).hexdigest()


def tasks(source: str, threads: int) -> str:
    """The photographs as tasks of a decoder, three works at once."""
    files = sorted(Path(source).with_name("photos").rglob("*.jpg"))
    config = json.dumps({"transform": [{"name": "RandomResizedCrop", "size": 24}]}).encode()
    room = np.zeros((3, len(files), 24, 24, 3), np.uint8)
    decoder = Decoder(threads)
    works = []
    for draw, images in enumerate(room):
        chosen = [
            Task(File(os.fsencode(path)), config, (0, 0, i, draw, 0), image.ctypes.data, image.size)
            for i, (path, image) in enumerate(zip(files, images, strict=True))
        ]
        works.append(decoder.submit(chosen, room))
    for work in works:
        work.wait()
        for error in work.failures().values():
            raise error
    decoder.close()
    return hashlib.sha256(room.tobytes()).hexdigest()


ACTS = {act.__name__: act for act in (epoch, loaders, samples, verify, pack, decode, tasks)}


def space_in_use() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


# Limits of threads and of bytes under which the engine starts, and which the process then reaches.
ROOMY = {"user": 600, "group": 600, "space": 1 << 40}


def limit(kind: str, amount: int, group: str) -> None:
    """Limits this process to that many more bytes than now, or to that many threads."""
    if kind == "space":
        resource.setrlimit(resource.RLIMIT_AS, (space_in_use() + amount, 2 * ROOMY[kind]))
    elif kind == "user":  # a user with no other process
        if os.getuid() == 0:
            os.setgroups([])
            # A different user for each process, because tests that run at once, and threads that
            # are still ending, count for a user, too.
            os.setresuid(*[654_321_000 + os.getpid()] * 3)
        resource.setrlimit(resource.RLIMIT_NPROC, (amount, ROOMY[kind]))
    elif kind == "group":
        Path(group, "pids.max").write_text(str(amount))
        Path(group, "cgroup.procs").write_text(str(os.getpid()))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a request: an act's result or its error, and warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            if request["late"]:  # the engine runs when memory use is at its peak
                limit(request["kind"], ROOMY[request["kind"]], request["group"])
                epoch(request["source"], 1)
            limit(request["kind"], request["limit"], request["group"])
            result = {"result": ACTS[request["act"]](request["source"], request["threads"])}
        except (Exception, MemoryError) as error:
            result = {"error": type(error).__name__, "text": str(error)}
    return result | {"warnings": [str(warning.message) for warning in warned]}


def serve() -> None:
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(writer, 2)  # what a runtime prints before it ends the process
            found = answer(json.loads(line))
            os.write(writer, b"\n" + json.dumps(found).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = json.loads(text.splitlines()[-1]) if status == 0 else {"said": text[-2000:]}
        print(json.dumps({"status": status} | found), flush=True)


if __name__ == "__main__":
    serve()

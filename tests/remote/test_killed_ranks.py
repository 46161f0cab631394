"""Of four ranks that share a cache one is killed, and goes on from the state that it had saved."""

from __future__ import annotations

import collections
import json
import os
import zlib
from pathlib import Path

import headrace as hr
import images
from processes import run
from remote.stores import Store

COUNT = 128  # four steps of all ranks, and no padding

# Forks ranks that have not loaded the library yet: a start takes little then, and many are killed.
# A rank writes a line for each batch: its state behind it, and each sample's number and checksum.
RANKS = """
    import json, os, random, shutil, signal, sys, time, zlib
    from pathlib import Path
    import headrace as hr
    url, place, rounds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    steps = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()]

    def train(rank, number, state):
        with hr.Loader(url, 8, shuffle=True, seed=number, transform=steps, dtype="uint8",
                       num_threads=1, rank=rank, world_size=4, output="numpy", fields=["index"],
                       cache=place / "cache", cache_size=8 << 20) as loader:
            if state:
                loader.load_state_dict(state)
            with open(place / f"{number}.{rank}", "a") as lines:
                for pixels, labels, fields in loader:
                    rows = [[int(i), int(label), zlib.crc32(image.tobytes())]
                            for i, label, image in zip(fields["index"], labels, pixels)]
                    lines.write(json.dumps([loader.state_dict(), rows]) + "\\n")
                    lines.flush()
                    time.sleep(0.005)

    def fork(rank, number, state=None):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                train(rank, number, state)
                status = 0
            finally:
                os._exit(status)
        return child

    def end(child, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        raise SystemExit(f"rank {child} hangs")

    draw, midway = random.Random(seed), 0
    for number in range(rounds):
        ranks = [fork(rank, number) for rank in range(4)]
        victim = draw.randrange(4)
        path = place / f"{number}.{victim}"
        # Half of them while they begin, half behind one of their batches.
        batches, deadline = number % 2 * draw.choice([1, 2, 3]), time.monotonic() + 60
        while batches and time.monotonic() < deadline:
            if path.exists() and path.read_text().count("\\n") >= batches:
                break
            time.sleep(0.001)
        time.sleep(draw.random() * (0.005 if batches else 0.2))
        os.kill(ranks[victim], signal.SIGKILL)
        end(ranks[victim])
        content = path.read_text() if path.exists() else ""
        lines = content[: content.rfind("\\n") + 1].splitlines()  # the last one may be cut
        midway += 0 < len(lines) < 4
        path.write_text("".join(line + "\\n" for line in lines))
        others = [child for rank, child in enumerate(ranks) if rank != victim]
        if len(lines) < 4:
            others.append(fork(victim, number, json.loads(lines[-1])[0] if lines else None))
        assert [end(child) for child in others] == [0] * len(others)
        rows = [row for rank in range(4) for line in open(place / f"{number}.{rank}")
                for row in json.loads(line)[1]]
        print(json.dumps(rows), flush=True)
        if draw.random() < 0.7:
            shutil.rmtree(place / "cache")
    print(midway)
"""


def test_four_ranks_lose_and_repeat_no_sample_where_one_is_killed_and_goes_on(
    tmp_path: Path,
) -> None:
    rounds = int(os.environ.get("HEADRACE_REPETITIONS", "8"))
    photos = images.plain_tree(tmp_path / "photos", COUNT)
    hr.pack(photos, tmp_path / "train.hr", shard_size="64KiB")
    place = tmp_path / "place"
    place.mkdir()
    store = Store(tmp_path)
    try:
        out = run(RANKS, store.url("train.hr"), place, rounds, 7, timeout=60 + 10 * rounds)
    finally:
        store.end()
    *found, midway = out.splitlines()
    assert len(found) == rounds
    assert int(midway) > 0  # so many were killed between two of their batches
    for number, line in enumerate(found):
        assert collections.Counter(wanted(tmp_path / "train.hr", number)) == collections.Counter(
            tuple(row) for row in json.loads(line)
        )


def wanted(dataset: Path, seed: int) -> list[tuple[int, int, int]]:
    """Each sample of an epoch of the dataset on disk: number, label, checksum of its pixels."""
    steps = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()]
    with hr.Loader(
        dataset,
        32,
        shuffle=True,
        seed=seed,
        transform=steps,
        dtype="uint8",
        num_threads=1,
        output="numpy",
        fields=["index"],
    ) as loader:
        return [
            (int(index), int(label), zlib.crc32(image.tobytes()))
            for pixels, labels, fields in loader
            for index, label, image in zip(fields["index"], labels, pixels, strict=True)
        ]

"""One of four ranks that share a cache is killed, and resumes from the state that it had saved."""

from __future__ import annotations

import collections
import json
import os
import random
import zlib
from pathlib import Path

import headrace as hr
import images
from processes import run
from remote.stores import Store

COUNT = 256  # sixteen steps of all ranks, without padding

# Forks ranks that have not loaded the library yet, so that a start takes little time and many can
# be killed. A rank writes a line for each batch: the state after it, and each sample's number and
# checksum. They train in step, like ranks that exchange gradients, so all four live while one is
# killed; and they prefetch little, so that records are fetched all the time.
RANKS = """
    import json, mmap, os, random, shutil, signal, sys, time, traceback, zlib
    from pathlib import Path
    import headrace as hr
    hr.Loader  # imported now, and not by each that is forked; the library is not loaded by it
    url, place, kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    transform = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()]
    STEPS, KILLS, PATIENCE = 16, 13, 60
    done = mmap.mmap(-1, 4)  # steps of each rank; what is forked shares it

    def train(rank, number, state, size):
        with hr.Loader(url, 4, shuffle=True, seed=number, transform=transform, dtype="uint8",
                       num_threads=1, rank=rank, world_size=4, output="numpy", fields=["index"],
                       prefetch=1, read_ahead=16, cache=place / "cache", cache_size=size) as loader:
            if state:
                loader.load_state_dict(state)
            with open(place / f"{number}.{rank}", "a") as lines:
                for pixels, labels, fields in loader:
                    rows = [[int(i), int(label), zlib.crc32(image.tobytes())]
                            for i, label, image in zip(fields["index"], labels, pixels)]
                    lines.write(json.dumps([loader.state_dict(), rows]) + "\\n")
                    lines.flush()
                    done[rank] += 1
                    deadline = time.monotonic() + PATIENCE
                    while min(done[:]) < done[rank]:
                        assert time.monotonic() < deadline, "the other ranks do not come"
                        time.sleep(0.001)

    def fork(rank, number, size, state=None):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                train(rank, number, state, size)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        return child

    def end(child):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        raise SystemExit(f"rank {child} hangs")

    def saved(path):
        # What it had written; the last line may be cut.
        content = path.read_text() if path.exists() else ""
        lines = content[: content.rfind("\\n") + 1].splitlines()
        path.write_text("".join(line + "\\n" for line in lines))
        return lines

    draw, killed, beginning, number, newest = random.Random(seed), 0, 0, 0, 0
    while killed < kills:
        size = draw.choice([1 << 20, 8 << 20])
        done[:] = bytes(4)
        ranks = [fork(rank, number, size) for rank in range(4)]
        for _ in range(min(KILLS, kills - killed)):
            began = done[:]
            # Half of them behind one of their batches, half while they begin or at any moment.
            if draw.random() < 0.5:
                victim, deadline = draw.randrange(4), time.monotonic() + PATIENCE
                while done[victim] == began[victim] < STEPS and time.monotonic() < deadline:
                    time.sleep(0.0005)
                time.sleep(draw.random() * 0.003)
            else:
                victim = draw.choice([newest, draw.randrange(4)])
                time.sleep(draw.random() * 0.15)
            if min(done[:]) >= STEPS - 4:  # none of them ends meanwhile
                break
            os.kill(ranks[victim], signal.SIGKILL)
            assert end(ranks[victim]) == signal.SIGKILL
            lines = saved(place / f"{number}.{victim}")
            killed, beginning = killed + 1, beginning + (began[victim] == len(lines))
            done[victim] = len(lines)
            state = json.loads(lines[-1])[0] if lines else None
            ranks[victim], newest = fork(victim, number, size, state), victim
        assert [end(child) for child in ranks] == [0] * 4
        rows = [row for rank in range(4) for line in open(place / f"{number}.{rank}")
                for row in json.loads(line)[1]]
        print(json.dumps(rows), flush=True)
        if draw.random() < 0.7:
            shutil.rmtree(place / "cache")
        number += 1
    print(killed, beginning)
"""


def test_four_ranks_neither_lose_nor_repeat_a_sample_if_one_is_killed_and_resumes(
    tmp_path: Path,
) -> None:
    kills = int(os.environ.get("HEADRACE_REPETITIONS", "50"))
    seed = int(os.environ.get("HEADRACE_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"HEADRACE_SEED={seed}")  # decides the moments; shown if the test fails
    photos = images.plain_tree(tmp_path / "photos", COUNT, side=120)
    hr.pack(photos, tmp_path / "train.hr", shard_size="256KiB")
    place = tmp_path / "place"
    place.mkdir()
    store = Store(tmp_path)
    try:
        out = run(RANKS, store.url("train.hr"), place, kills, seed, timeout=120 + 2 * kills)
    finally:
        store.end()
    *found, counts = out.splitlines()
    killed, beginning = map(int, counts.split())
    assert killed == kills
    assert 0 < beginning < killed  # others had already made batches
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

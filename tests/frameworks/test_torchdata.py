"""torchdata: StatefulDataLoader's contract."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from frameworks_support import EXAMPLES

# A process of its own, which forks workers and so must not have used Headrace before.
RESUME = """
    import json, pickle, sys
    sys.path.insert(0, sys.argv[1])
    import torchdata_stateful as program
    photographs, workers, stop = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    def seen(loader, steps=None):
        found = []
        for images, labels, more in loader:
            found.append(more["index"].tolist())
            if len(found) == steps:
                break
        return found
    first = program.loader_over(photographs, workers)
    begun = seen(first, stop)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = program.loader_over(photographs, workers)
    second.load_state_dict(state)
    resumed, following = seen(second), seen(second)
    third = program.loader_over(photographs, workers)
    print(json.dumps([begun, resumed, following, seen(third), seen(third)]))
"""


@pytest.mark.parametrize(("workers", "stop"), [(0, 5), (0, 15), (2, 6), (2, 7)])
def test_a_state_goes_on_with_the_very_next_batch(
    photographs: Path, workers: int, stop: int
) -> None:
    import processes

    said = processes.run(RESUME, EXAMPLES, photographs, workers, stop, timeout=300)
    begun, resumed, following, first, second = json.loads(said)
    assert begun + resumed == first
    assert sorted(chain.from_iterable(first)) == list(range(256))
    assert following == second != first


def test_the_example_trains_and_resumes(photographs: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "torchdata_stateful.py", photographs],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "together 256 different photographs of 256" in done.stdout

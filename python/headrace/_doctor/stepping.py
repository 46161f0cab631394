"""A training's own step with real batches, with one repeated batch, and the loader alone.

The difference between the first two is what data costs. The third says what the loader could give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace._doctor import bounded, cures, phases, sentences, verdict
from headrace._doctor.report import Diagnosis, a_second
from headrace._doctor.stages import limit as time_limit
from headrace._engine import tracing

# A training that waits for less of its time than this is not held up by its data.
_LEAST_WAIT = 0.05
# Nor is a training whose loader is faster than its step and that waits for less than this. Such a
# loader works in the step's own thread, so their times add up, or it takes cores from the step.
_LEAST_ADDED = 0.1
# Reads of an image that take longer come from storage, and not from the page cache.
_SLOW_READ = 150e-6
# If copying takes so much of a step, copying is the limit.
_COPYING = 0.5
_TOLD = 0.005  # of the time: causes with a smaller share are not reported


def diagnose(
    loader: Any, step: Callable[[Any], Any], rate: float | None, seconds: float
) -> Diagnosis:
    """Runs the step and the loader, together and apart; ``headrace.doctor`` describes the answer.

    The step is the user's, and really trains. Afterwards the loader continues from where it stood,
    if it can save its state.
    """
    clock = time_limit(seconds)
    place = loader.state_dict() if _has_state(loader) else None
    try:
        seen = phases.measured(loader, step, seconds)
    finally:  # the step may fail, and the program may try another one
        if place is not None:
            loader.load_state_dict(place)
    real, alone, facts = seen.real, seen.alone, seen.facts
    share = real.waited / max(real.waited + real.worked, 1e-9)
    parts = _parts(alone, facts["cores_usable"])
    cause = _cause(parts)
    stages: dict[str, float | None] = dict.fromkeys(verdict.STAGES)
    # Both rates say how fast the step is when its data is ready; no loader makes the training
    # faster.
    stages["training"] = max(seen.repeated.rate, real.working)
    stages[cause], stages["copy"] = alone.rate, seen.copy[0]
    if cause == "storage" and alone.spent.get("decoding_s"):
        stages["decoding"] = _decoding(alone)
    limit = _limit(stages, cause, share, real.rate, seen.kept)
    measured = {
        "images_per_second": real.rate,
        **stages,
        "loader": alone.rate,
        "waiting_share": share,
        "waiting_for": {name: share * part for name, part in parts.items() if share * part > _TOLD},
        "batches_kept": seen.kept,
        "machine": facts,
        "gpus": seen.gpus,
    }
    found: list[dict[str, Any]] = []
    tried: list[str] = []
    if rate is not None and real.rate >= rate:
        limit = "none"
    else:
        found, tried = _remedies(loader, seen, stages, limit, seconds, clock)
    notes = [*_notes(seen, stages, limit), *tried, *_of_loader(loader, seen, limit)]
    answer = {
        "limit": limit,
        "measured": measured,
        "asked": {"rate": rate, "seconds": seconds},
        "remedies": found,
        "notes": notes,
    }
    return Diagnosis(answer, sentences.lines(answer))


def _has_state(loader: Any) -> bool:
    return all(callable(getattr(loader, name, None)) for name in ("state_dict", "load_state_dict"))


def _decoding(alone: phases.Phase) -> float:
    """Returns the images a second that the threads decode while they have bytes."""
    decoded, spent = alone.spent.get("images_decoded", 0.0), alone.spent["decoding_s"]
    return alone.spent["threads"] * decoded / max(spent, 1e-9)


def _parts(alone: phases.Phase, cores: float) -> dict[str, float]:
    """How the loader's threads spend their time when only the loader works, as shares of 1."""
    spent = alone.spent
    if "decoding_s" not in spent:
        return {"decoding": 1.0}  # such a loader does not say, so all counts as decoding
    whole = max(spent["threads"] * alone.took, 1e-9)
    reading = spent["reading_s"] / max(spent["images_decoded"], 1.0)
    bytes_ = spent["waiting_for_bytes_s"]
    # If there are more threads than cores, a thread may wait for a core in the middle of a read.
    crowd = max(spent["threads"] / cores, 1.0)
    if reading > _SLOW_READ * crowd and not bytes_:
        bytes_ = spent["reading_s"]
    storage = min(bytes_ / whole, 1.0)
    decoding = min(spent["decoding_s"] / whole, 1.0 - storage)
    return {"storage": storage, "decoding": decoding, "delivery": 1.0 - storage - decoding}


def _cause(parts: dict[str, float]) -> str:
    """Returns what the loader alone waits for."""
    if parts.get("storage", 0.0) > 0.3:
        return "storage"
    return "decoding" if parts["decoding"] > 0.5 else "delivery"


def _limit(
    stages: dict[str, float | None], cause: str, share: float, real: float, kept: int
) -> str:
    """Returns the stage that set the pace of the training as it ran."""
    expected = verdict.limit(stages, None)[1]
    if kept > cures.HELD and real < 0.8 * expected:
        return "delivery"
    copy, training = stages["copy"], stages["training"] or 0.0
    slower = (stages[cause] or 0.0) < training
    if share > (_LEAST_WAIT if slower else _LEAST_ADDED):
        return cause
    return "copy" if copy is not None and training > _COPYING * copy else "training"


def _remedies(
    loader: Any,
    seen: phases.Seen,
    stages: dict[str, float | None],
    limit: str,
    seconds: float,
    clock: bounded.Clock,
) -> tuple[list[dict[str, Any]], list[str]]:
    facts, alone = seen.facts, seen.alone
    free = max(facts["cores_usable"] - (facts["cores_others"] or 0.0), 0.5)
    training = cures.Training(
        loader=loader,
        limit=limit,
        real=seen.real.rate,
        alone=alone.rate,
        # If the step is the limit, a loader can remove only the waiting time.
        step=seen.real.working if limit == "training" else stages["training"] or 0.0,
        decoding=stages["decoding"] or 0.0,
        kept=seen.kept,
        bound=cures.Bound(free, seen.repeated.cpu_s, alone.cpu_s),
    )
    with tracing.without_variable():
        return cures.find(training, seconds, clock, facts)


def _notes(seen: phases.Seen, stages: dict[str, float | None], limit: str) -> list[str]:
    """Returns notes on the training itself."""
    said, expected, real = [], verdict.limit(stages, None)[1], seen.real.rate
    if seen.kept > cures.HELD:
        said.append(f"the step keeps batches: {seen.kept:,} were alive at the end")
    elif real < 0.8 * expected:
        said.append(
            f"together they reach {a_second(real)} images/s and apart {a_second(expected)}: step "
            "and loader take cores from one another"
        )
    if limit not in ("training", "none"):
        alone = a_second(stages["training"] or 0.0)
        said.append(f"with its data always there the step makes {alone} images/s")
    return said + sentences.of_gpus(seen.gpus, worked=True) + [seen.copy[1]] * bool(seen.copy[1])


def _of_loader(loader: Any, seen: phases.Seen, limit: str) -> list[str]:
    """Returns notes on the loader and the machine."""
    facts, said = seen.facts, []
    if not phases.stats(loader):
        said.append("this loader does not say what it waits for: all of it counts as decoding")
    if limit in ("decoding", "delivery") and cures.is_of_own_code(loader):
        said.append("the dataset's own code runs in Python: loader.explain() says what it costs")
    said += sentences.of_machine(facts, int(seen.alone.spent["threads"]))
    if cures.is_torchs(loader):
        workers = int(getattr(loader, "num_workers", 0))
        if not workers:
            said.append("without workers the loader's time is added to the step's, not beside it")
        ahead = workers * int(getattr(loader, "prefetch_factor", None) or 2)
        said += sentences.of_workers(facts, workers, ahead * seen.batch_bytes)
    return said

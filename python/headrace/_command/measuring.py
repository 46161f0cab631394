"""The commands that say how fast a training loads: ``bench``, ``doctor`` and ``plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace._command import options, output
from headrace._engine import containers


def bench(
    source: options.Sources,
    batch_size: Annotated[int, typer.Option(help="Samples a batch.")] = 128,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    seconds: Annotated[float, typer.Option(help="Seconds to measure.")] = 10.0,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Load augmented float32 batches as in training; print the rate and where the time goes."""
    from headrace._command.bench import measure

    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    with output.complaining(), output.bar("Loading", as_json) as show:
        found = measure(
            options.source(source),
            batch_size,
            size,
            seconds,
            threads,
            show,
            **words._asdict(),
            storage=options.storage(storage),
            timeout=timeout,
            cache=cache,
            cache_size=cache_size,
        )
    if not as_json:
        output.say(
            f"{found.pop('images_per_second'):,.0f} images/s, "
            f"{found.pop('megabytes_per_second'):,.1f} MB/s of encoded images"
        )
    output.result(found, as_json)


def doctor(
    source: options.Sources,
    rate: Annotated[float | None, typer.Option(help="Images a second that you need.")] = None,
    transform: Annotated[
        str, typer.Option(help="train, eval, randaugment, or a JSON file with transforms.")
    ] = "train",
    batch_size: Annotated[int, typer.Option(help="Samples a batch.")] = 128,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    seconds: Annotated[float, typer.Option(help="Seconds to measure, about; at least 1.")] = 15.0,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
    as_json: options.AsJSON = False,
) -> None:
    """Measure what limits loading here (storage, decoding or delivery), and what would help."""
    from headrace import diagnosing
    from headrace._doctor import machine, stages

    # If other programs keep the cores busy, this program takes long to start. That time counts,
    # because the answer should be there within twice the time that was asked for.
    asked = seconds
    if seconds > (least := stages.LEAST_SECONDS):
        left = min(seconds, (2 * seconds - machine.age()) / stages.ENDS)
        seconds = max(left, seconds / 4, least)
    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    found = diagnosing.doctor(
        options.source(source),
        rate=rate,
        transform=transform,
        batch_size=batch_size,
        size=size,
        seconds=seconds,
        **words._asdict(),
        storage=options.storage(storage),
        timeout=timeout,
        cache=cache,
        cache_size=cache_size,
    )
    found.asked["seconds"] = asked
    output.say(found.to_json() if as_json else str(found))


def plan(
    context: typer.Context,
    source: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE", parser=options.path, help="A dataset, as for headrace info."
        ),
    ] = None,
    gpus: Annotated[int, typer.Option(help="Number of GPUs.")] = 1,
    rate: Annotated[float | None, typer.Option(help="Images a second that a GPU takes.")] = None,
    step_seconds: Annotated[
        float | None,
        typer.Option(help="Instead of --rate: seconds of a step, without waiting for data."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Samples of a step on one GPU.")] = 256,
    images: Annotated[int | None, typer.Option(help="Without SOURCE: number of images.")] = None,
    image_bytes: Annotated[
        float | None,
        typer.Option(
            help="Mean bytes of an image file: needed without SOURCE; avoids fetching images from "
            "a store."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Number of epochs.")] = 1,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    images_per_core: Annotated[
        float | None,
        typer.Option(help="Images a second that one core decodes; headrace doctor measures it."),
    ] = None,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    as_json: options.AsJSON = False,
) -> None:
    """Calculate the storage, cores and memory that a planned training needs."""
    from headrace import planning

    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    if (rate is None) == (step_seconds is None):
        raise options.UsageError("One of --rate and --step-seconds is needed", context)
    if not source and (images is None or image_bytes is None):
        raise options.UsageError("SOURCE is needed, or --images and --image-bytes", context)
    if source and images is not None:
        raise options.UsageError("--images is for a plan without SOURCE", context)
    found = planning.plan(
        options.source(source) if source else None,
        gpus=gpus,
        rate=rate,
        step_seconds=step_seconds,
        batch_size=batch_size,
        images=images,
        image_bytes=image_bytes,
        epochs=epochs,
        size=size,
        images_per_core=images_per_core,
        **words._asdict(),
        storage=options.storage(storage),
        timeout=timeout,
    )
    output.say(found.to_json() if as_json else str(found))

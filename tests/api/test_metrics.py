"""``loader.stats()`` and ``headrace.metrics``: each field, of every loader of the process."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from torchvision.datasets import ImageFolder
from torchvision.transforms import CenterCrop, Compose, ToTensor

import headrace as hr
import images
from headrace import metrics
from headrace._engine import _lib, living
from opening import Photographs

CROP = [hr.transforms.RandomResizedCrop(32)]
PAGE = Path(__file__).parents[2] / "docs/doctor.md"


def test_every_field_of_stats_is_described_and_no_other(packed: Path) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        assert set(loader.stats()) == set(metrics.FIELDS)


def test_the_documentation_describes_each_field_as_the_module_does() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:counter|gauge) \| (.+) \|$", PAGE.read_text(), re.M))
    assert rows == {field: says for field, (_, says) in metrics.FIELDS.items()}


def test_a_dataloader_has_stats_if_the_engine_makes_its_batches(tmp_path: Path) -> None:
    photos = ImageFolder(
        str(images.plain_tree(tmp_path, 12, 3)), Compose([CenterCrop(32), ToTensor()])
    )
    loader = hr.DataLoader(photos, 4)
    try:
        assert set(loader.stats()) == {"pillow_images", "pillow_files"}  # not one thread yet
        for _ in loader:
            pass
        found = loader.stats()
        assert set(found) == {"pillow_images", "pillow_files", *metrics.FIELDS}
        assert (found["samples"], found["batches"], found["pillow_images"]) == (12, 3, 0)
    finally:
        loader.close()


def test_a_dataloader_over_a_packed_dataset_has_all_stats_only_with_a_transform(
    packed: Path,
) -> None:
    pillow = {"pillow_images", "pillow_files"}
    for how, fields in (({"transform": CROP}, {*pillow, *metrics.FIELDS}), ({}, pillow)):
        loader = hr.DataLoader(hr.Dataset(packed), 1, **how)
        try:
            for _ in loader:
                pass
            assert set(loader.stats()) == fields
        finally:
            loader.close()


def test_a_loader_over_a_datasets_own_code_is_listed_until_it_is_closed(
    tmp_path: Path,
) -> None:
    root = images.plain_tree(tmp_path, 12, 3)
    loader = hr.DataLoader(Photographs(root), 4)
    assert metrics.collect() == {}
    batches = list(loader)
    assert [len(labels) for _, labels in batches] == [4, 4, 4]
    [stats] = metrics.collect().values()
    assert set(stats) == set(metrics.FIELDS)
    assert (stats["samples"], stats["batches"], stats["images_decoded"]) == (12, 3, 12)
    assert stats["bytes_read"] == sum(path.stat().st_size for path in root.rglob("*.jpg"))
    for name in ("images_per_second", "bytes_per_second", "decoding_s", "reading_s", "threads"):
        assert stats[name] > 0, name
    assert 0 < stats["stall_p50_s"] <= stats["stall_p99_s"] <= stats["stall_max_s"]
    assert stats["stall_max_s"] <= stats["consumer_waiting_s"]
    found = loader.stats()
    assert set(found) == {"pillow_images", "pillow_files", *metrics.FIELDS}
    loader.close()
    assert metrics.collect() == {}


def test_bytes_and_seek_points_of_decoded_images_are_counted(packed: Path) -> None:
    with hr.Dataset(packed) as dataset:
        facts = [dataset.facts(index) for index in range(len(dataset))]
        with hr.Loader(dataset, 8, transform=CROP, output="numpy") as loader:
            for _ in loader:
                pass
            found = loader.stats()
    assert found["images_decoded"] >= 24
    assert found["bytes_read"] >= sum(fact["length"] for fact in facts)
    assert found["bytes_per_second"] > 0
    with_points = sum(fact["seek_length"] > 0 for fact in facts)
    assert found["images_with_seek_points"] >= with_points
    if with_points in (0, 24):
        assert found["images_with_seek_points"] == found["images_decoded"] * with_points // 24


def test_a_thread_reads_all_loaders_while_another_opens_and_closes_some() -> None:
    over, failures = threading.Event(), []

    def read() -> None:
        try:
            for _ in range(5):
                metrics.collect()
        except BaseException as failure:
            failures.append(failure)
        finally:
            over.set()

    def opened() -> _lib.Handle:
        handle = _lib.Handle()  # closed at once: only the list of loaders matters
        handle.close()
        living.add(handle)
        return handle

    kept = [opened() for _ in range(500)]
    reader, interval = threading.Thread(target=read), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        reader.start()
        while not over.is_set():
            kept.append(opened())
    finally:
        reader.join()
        sys.setswitchinterval(interval)
    assert not failures


def test_prometheus_reads_every_loader_until_it_is_closed(packed: Path) -> None:
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    metrics.register(registry)

    def text() -> str:
        return str(client.generate_latest(registry).decode())

    with (
        hr.Loader(packed, 8, transform=CROP, output="numpy") as one,
        hr.Loader(packed, 4, transform=CROP, output="numpy"),
    ):
        next(iter(one))
        lines = [line for line in text().splitlines() if line.startswith("headrace_samples_total")]
        assert sorted(line.split()[-1] for line in lines) == ["0.0", "8.0"]
        assert "headrace_decoding_seconds_total{" in text()
        assert "headrace_batches_ready{" in text()
    assert "headrace_samples_total{" not in text()


def test_a_second_registration_in_a_registry_is_refused() -> None:
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    metrics.register(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        metrics.register(registry)
    lines = client.generate_latest(registry).decode().splitlines()
    assert lines.count("# TYPE headrace_samples_total counter") == 1


def test_opentelemetry_observes_every_loader(packed: Path) -> None:
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    metrics.instrument(provider.get_meter("test"))
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        next(iter(loader))
        told: dict[str, Any] = {}
        found = reader.get_metrics_data()
        assert found is not None
        for resource in found.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    told[metric.name] = [point.value for point in metric.data.data_points]
    provider.shutdown()
    assert set(told) == {
        metrics.name(field).replace("headrace_", "headrace.") for field in metrics.FIELDS
    }
    assert told["headrace.samples"] == [8]


def test_the_prometheus_collector_needs_its_package_only_when_it_is_used(packed: Path) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy"):
        [stats] = metrics.collect().values()
    assert set(stats) == set(metrics.FIELDS)
    assert metrics.collect() == {}

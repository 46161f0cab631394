"""The limits of compressed blocks, as a user sets them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import headrace as hr
import headrace.transforms as T
import images
import tables
from headrace import errors

FILES, ROWS = 6, 4


@pytest.fixture(scope="module")
def snappy(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files with one compressed page of images each."""
    groups = [range(file * ROWS, (file + 1) * ROWS) for file in range(FILES)]
    made = [
        tables.table([images.jpeg(40, 50, seed=i) for i in group], [0] * ROWS, ["cat"])
        for group in groups
    ]
    options = {"compression": "snappy", "use_dictionary": False, "row_group_size": ROWS}
    return tables.parquet(tmp_path_factory.mktemp("blocks"), made, **options)


def epoch(dataset: hr.Dataset, **options: bool) -> hr.Loader:
    """A loader after one epoch with one thread."""
    loader = hr.Loader(dataset, 4, transform=[T.Resize((24, 24))], num_threads=1, **options)
    for _ in loader:
        pass
    return loader


def test_a_block_over_max_block_bytes_is_refused_by_every_reader(
    snappy: list[Path], tmp_path: Path
) -> None:
    limits = {"max_block_bytes": 1000}
    says = r"\.parquet: record 0 .*at byte \d+: .*the block has \d+ bytes, max_block_bytes is 1000"
    hr.index(snappy, tmp_path / "index.hr")
    with hr.Dataset(tmp_path / "index.hr", limits=limits) as dataset:
        with pytest.raises(errors.LimitError, match=says):
            dataset.read(0)
        with pytest.raises(errors.LimitError, match=r"max_block_bytes is 1000"):
            epoch(dataset)
        with pytest.raises(errors.LimitError, match=says):
            hr.pack(dataset, tmp_path / "own.hr")
    with pytest.raises(errors.LimitError, match=says):
        hr.pack(tmp_path / "index.hr", tmp_path / "packed.hr", limits=limits)
    assert [made.parent.name for made in tmp_path.glob("*.hr/headrace.json")] == ["index.hr"]
    assert hr.verify(tmp_path / "index.hr")["ok"]
    found = hr.verify(tmp_path / "index.hr", limits=limits)
    assert not found["ok"]
    assert found["faults"]["total"] == FILES * ROWS
    assert "max_block_bytes is 1000" in found["faults"]["listed"][0]["found"]


def test_a_scan_decodes_no_block_over_max_block_bytes(snappy: list[Path], tmp_path: Path) -> None:
    limits = {"max_block_bytes": 1000}
    says = (
        r"\.parquet: record 0 .*at byte \d+: .* decoded \(expected at most 1000, max_block_bytes\)"
    )
    for source in (snappy, snappy[0], snappy[0].parent):
        with pytest.raises(errors.LimitError, match=says):
            hr.Dataset(source, limits=limits)
    for job in (hr.pack, hr.index):
        with pytest.raises(errors.LimitError, match=says):
            job(snappy, tmp_path / "made.hr", limits=limits)
    assert not any(tmp_path.glob("*.hr/headrace.json"))
    with hr.Dataset(snappy, limits={"max_block_bytes": 100_000}) as dataset:
        assert len(dataset) == FILES * ROWS


def test_max_cached_bytes_limits_the_decoded_blocks_that_are_kept(snappy: list[Path]) -> None:
    decoded = []
    for limits in (None, {"max_cached_bytes": 1}):
        with hr.Dataset(snappy, limits=limits) as dataset, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning of a shuffle's cost
            with epoch(dataset, shuffle=True) as loader:
                decoded.append(loader.stats()["blocks_decoded"])
    assert decoded[0] == FILES
    assert decoded[1] > FILES


def test_a_window_is_as_long_as_the_decoded_blocks_in_the_cache(snappy: list[Path]) -> None:
    windows = []
    for limits in (None, {"max_cached_bytes": 40_000}):
        with (
            hr.Dataset(snappy, limits=limits) as dataset,
            hr.Loader(dataset, 4, transform=[T.Resize((24, 24))], shuffle="window") as loader,
        ):
            windows.append(loader.state_dict()["stretches"])
            for _ in loader:
                pass
            assert FILES <= loader.stats()["blocks_decoded"] <= 2 * FILES
    assert windows[0] != windows[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_block_bytes", 0), ("max_block_bytes", (256 << 20) + 1), ("max_cached_bytes", 0)],
)
def test_an_impossible_limit_of_blocks_is_named(snappy: list[Path], name: str, value: int) -> None:
    for take in (hr.Dataset, hr.verify):
        with pytest.raises(errors.ArgumentError, match=rf"limits\['{name}'\]={value}: an int"):
            take(snappy[0], limits={name: value})

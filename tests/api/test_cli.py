"""The command line: what it prints, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


def run(*arguments: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done


def test_pack_info_and_verify_in_a_row(folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "photos.hr"
    made = json.loads(run("pack", folder, packed, "--shard-size", "100KB", "--json").stdout)
    assert made["rows"] == 24
    told = json.loads(run("info", packed, "--json").stdout)
    assert (told["rows"], told["kind"]) == (24, "packed")
    assert told["classes"] == ["class0", "class1", "class2"]
    one = json.loads(run("info", packed, "--sample", "5", "--json").stdout)
    assert one["key"] == "class0/image0015"
    assert json.loads(run("verify", packed, "--json").stdout)["faults"]["total"] == 0
    assert "24" in run("verify", packed).stdout


def test_verify_names_shard_sample_and_offset_and_fails(packed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.hr"
    copy.mkdir()
    for file in packed.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    shard = copy / "shard-00000.tar"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes(data)
    found = json.loads(run("verify", copy, "--json", status=1).stdout)
    assert not found["ok"]
    assert {fault["file"] for fault in found["faults"]["listed"]} == {str(shard)}
    text = run("verify", copy, status=1).stderr
    assert f"{shard}: record " in text
    assert "at byte" in text
    assert "Traceback" not in text


def test_index_makes_a_folder_an_indexed_one(folder: Path, tmp_path: Path) -> None:
    run("index", folder, "--index-dir", tmp_path / "index")
    told = json.loads(run("info", folder, "--index-dir", tmp_path / "index", "--json").stdout)
    assert (told["rows"], told["kind"]) == (24, "indexed")


def test_view_writes_a_contact_sheet(packed: Path, tmp_path: Path) -> None:
    run("view", packed, tmp_path / "sheet.png", "--count", "6", "--size", "32")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.size == (3 * 36 + 4, 2 * 50 + 4)
        assert len(sheet.convert("RGB").getcolors(10**6)) > 500


def test_bench_says_how_fast_and_where_the_time_goes(packed: Path) -> None:
    found = json.loads(
        run(
            "bench", packed, "--seconds", "0.3", "--batch-size", "8", "--size", "32", "--json"
        ).stdout
    )
    assert found["images_per_second"] > 0
    assert found["megabytes_per_second"] > 0
    assert "images/s" in run("bench", packed, "--seconds", "0.2", "--batch-size", "8").stdout


@pytest.mark.parametrize("command", ["info", "verify", "bench", "pack", "view", "index"])
def test_a_failure_is_one_sentence_with_the_file(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "no [such] place"
    more = [tmp_path / "out"] if command in ("pack", "view") else []
    done = run(command, missing, *more, status=1)
    assert done.stderr.startswith("headrace: ")
    assert str(missing) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_wrong_argument_is_refused_with_its_usage(tmp_path: Path) -> None:
    assert "Usage" in run("pack", status=2).stderr
    assert "Missing" in run("pack", tmp_path, status=2).stderr

"""The command line: what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace as hr
import processes
from headrace._command import summary
from images import plain_tree, png, write_tree


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


def test_pack_info_and_verify_work_one_after_the_other(folder: Path, tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_info_shows_the_path_of_a_single_file(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((4, 8, 8, 3), np.uint8))
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(plain_tree(tmp_path / "photos", 4), "photos")
    for name in ("images.npy", "photos.tar"):
        path = tmp_path / name
        assert json.loads(run("info", path, "--json").stdout)["path"] == str(path)
        assert f" {path}" in run("info", path).stdout.splitlines()[0]


def test_index_turns_a_folder_into_an_indexed_dataset(folder: Path, tmp_path: Path) -> None:
    run("index", folder, "--index-dir", tmp_path / "index")
    told = json.loads(run("info", folder, "--index-dir", tmp_path / "index", "--json").stdout)
    assert (told["rows"], told["kind"]) == (24, "indexed")


def test_view_writes_a_contact_sheet(packed: Path, tmp_path: Path) -> None:
    run("view", packed, tmp_path / "sheet.png", "--count", "6", "--size", "32")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.size == (3 * 36 + 4, 2 * 50 + 4)
        assert len(sheet.convert("RGB").getcolors(10**6)) > 500


def test_view_shows_all_views_of_a_sample_side_by_side(packed: Path, tmp_path: Path) -> None:
    run("view", packed, tmp_path / "two.png", "--count", "6", "--size", "32", "--views", "2")
    run("view", packed, tmp_path / "one.png", "--count", "6", "--size", "32")
    with Image.open(tmp_path / "two.png") as two, Image.open(tmp_path / "one.png") as one:
        assert two.size == (3 * 68 + 4, 2 * 50 + 4)
        first, second = two.crop((4, 4, 36, 36)), two.crop((36, 4, 68, 36))
        assert first.tobytes() == one.crop((4, 4, 36, 36)).tobytes() != second.tobytes()


def test_view_on_a_full_disk_leaves_the_old_file(packed: Path, tmp_path: Path) -> None:
    code = """
        import os, sys
        from headrace._command import cli
        picture = sys.argv[2] + "/a.png"
        sys.argv[1:] = ["view", sys.argv[1], picture, "--count", "6", "--size", "64"]
        for before in (None, "an older picture"):
            if before:
                open(picture, "w").write(before)
            try:
                cli.main()
            except SystemExit as ended:
                print(ended.code, os.listdir(os.path.dirname(picture)))
        print(open(picture).read())
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    full = processes.in_mount_namespace(f"mount -t tmpfs -o size=8k tmpfs {disk}")
    found = processes.run(code, packed, disk, prefix=full, timeout=120)
    assert found.splitlines() == ["1 []", "1 ['a.png']", "an older picture"]


def test_view_keeps_a_link_and_writes_to_targets_that_are_no_regular_files(
    packed: Path, tmp_path: Path
) -> None:
    (tmp_path / "link.png").symlink_to(tmp_path / "real.png")
    for picture in (tmp_path / "link.png", "/dev/null"):
        run("view", packed, picture, "--count", "2", "--size", "16")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")
    assert Path("/dev/null").is_char_device()


def test_bench_prints_the_rate_and_where_the_time_goes(packed: Path) -> None:
    found = json.loads(
        run(
            "bench", packed, "--seconds", "0.3", "--batch-size", "8", "--size", "32", "--json"
        ).stdout
    )
    assert found["images_per_second"] > 0
    assert found["megabytes_per_second"] > 0
    assert "images/s" in run("bench", packed, "--seconds", "0.2", "--batch-size", "8").stdout


def sentence(*arguments: Any, status: int = 1, **options: Any) -> str:
    """A failing command's message: one line on stderr, nothing on stdout, no traceback."""
    done = run(*arguments, status=status, **options)
    assert done.stderr.startswith("headrace: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.every(3)
@pytest.mark.parametrize("command", ["info", "verify", "bench", "pack", "view", "index"])
def test_a_failure_is_one_sentence_that_names_the_file(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "no [such] place"
    more = [tmp_path / "out"] if command in ("pack", "view") else []
    assert str(missing) in sentence(command, missing, *more)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["info", "verify", "pack", "view"])
def test_a_name_with_a_newline_is_escaped_and_the_message_is_one_line(
    command: str, tmp_path: Path
) -> None:
    missing = tmp_path / "no\nsuch\x1b[31m"
    more = [tmp_path / "out"] if command in ("pack", "view") else []
    assert f"{tmp_path}/no\\nsuch\\x1b[31m: " in sentence(command, missing, *more)


def test_keys_with_a_newline_are_printed_on_one_line_in_lists_of_facts_and_faults(
    tmp_path: Path,
) -> None:
    folder = write_tree(tmp_path / "f", {"c\nd/a\nb.png": png(8, 8, 2), "c\nd/e\nf.png": b"none"})
    made = run("pack", folder, tmp_path / "p")
    assert len(made.stderr.splitlines()) == 2, made.stderr
    assert "e\\nf.png: record 1" in made.stderr
    told = run("info", tmp_path / "p", "--sample", "0").stdout.splitlines()
    assert "key" in [line.split()[0] for line in told]
    assert r"classes      c\nd" in run("info", tmp_path / "p").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["view", "{packed}", "{tmp}/a.png", "--count", "0"], "--count 0: an int of at least 1"),
        (["view", "{packed}", "{tmp}/a.png", "--size", "-3"], "--size -3"),
        (["view", "{packed}", "{tmp}/nowhere/a.png"], "there is no folder {tmp}/nowhere"),
        (["view", "{packed}", "{tmp}/a.gif"], "{tmp}/a.gif: the sheet is a PNG (expected a name"),
        (["pack", "{packed}", "{tmp}/p"], "{packed}: is a packed dataset already (expected a fol"),
        (
            ["pack", "{packed}/shard-00000.tar", "{tmp}/p"],
            "is a file of the packed dataset {packed}",
        ),
        (
            ["index", "{packed}"],
            "{packed}: is a packed dataset already (expected a folder of class",
        ),
        (["view", "{packed}", "{tmp}"], "{tmp}: cannot be written: Is a directory"),
        (["bench", "{packed}", "--seconds", "0"], "--seconds 0.0: a number of seconds"),
        (["bench", "{packed}", "--seconds", "nan"], "--seconds nan"),
        (["bench", "{packed}", "--batch-size", "0"], "--batch-size 0"),
        (["bench", "{packed}", "--threads", "0"], "--threads 0"),
        (["pack", "{folder}", "{tmp}/p", "--quality", "500"], "--quality 500: an int from 1 to"),
        (["pack", "{folder}", "{tmp}/p", "--resize", "0"], "--resize 0: an int from 1 to 65500"),
        (["pack", "{folder}", "{tmp}/p", "--shard-size", "big"], "--shard-size 'big'"),
        (
            ["pack", "{folder}", "{tmp}/p", "--shard-size", "9KB"],
            "--shard-size '9KB': at least 10,240",
        ),
        (["pack", "{folder}", "{packed}"], "{packed}"),
        (
            ["info", "{packed}", "--sample", "24"],
            "there is no sample 24: the dataset has 24 samples",
        ),
        (["verify", "{packed}", "--threads", "-1"], "--threads -1"),
        (["plan", "{packed}", "--rate", "0"], "--rate 0.0: a number of images a second"),
        (["doctor", "{packed}", "--rate", "nan"], "--rate nan: a number of images a second"),
        (["doctor", "{packed}", "--seconds", "0.1"], "--seconds 0.1: at least 1 second was"),
        (["plan", "{packed}", "--step-seconds=-1"], "--step-seconds -1.0: a number of sec"),
        (["plan", "{packed}", "--rate", "1", "--images-per-core", "0"], "--images-per-core 0.0"),
    ],
)
@pytest.mark.every(3)
def test_a_wrong_value_is_one_sentence_that_names_its_option(
    folder: Path, packed: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    places = {"folder": folder, "packed": packed, "tmp": tmp_path}
    said = sentence(*(argument.format(**places) for argument in arguments))
    assert words.format(**places) in said
    assert not list(tmp_path.iterdir())


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pack", "", "somewhere/p"], "SOURCE"),
        (["pack", "somewhere/a", ""], "DESTINATION"),
        (["info", ""], "SOURCE"),
        (["info", "somewhere/a", "--index-dir", ""], "--index-dir"),
        (["pack"], "SOURCE and DESTINATION are needed"),
        (["pack", "photos"], "SOURCE and DESTINATION are needed"),
        (["view", "photos.hr"], "SOURCE and PICTURE are needed"),
        (["info"], "Missing argument 'SOURCE'"),
        (["info", "somewhere", "--sample", "x"], "--sample"),
        (["info", "somewhere", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["plan", "somewhere"], "One of --rate and --step-seconds is needed"),
        (["plan", "a", "--rate", "1", "--step-seconds", "1"], "One of --rate and --step-seconds"),
        (["plan", "--rate", "1"], "SOURCE is needed, or --images and --image-bytes"),
        (["plan", "--rate", "1", "--images", "9"], "SOURCE is needed, or --images and --image"),
        (["plan", "a", "--rate", "1", "--images", "9"], "--images is for a plan without SOURCE"),
    ],
)
def test_a_wrong_command_line_gives_one_sentence_that_points_to_the_help(
    arguments: list[str], words: str
) -> None:
    said = sentence(*arguments, status=2)
    assert words in said
    assert "--help" in said


def test_help_says_what_can_be_packed() -> None:
    text = " ".join(run("pack", "--help").stdout.split())
    assert "CSV" in text
    assert "Parquet" in text
    assert "pack" in run(status=2).stdout


def test_the_version_printed_and_the_version_in_a_dataset_are_the_packages(packed: Path) -> None:
    assert run("--version").stdout == f"headrace {hr.__version__}\n"
    with hr.Dataset(packed) as dataset:
        assert dataset.info["created_by"] == f"headrace {hr.__version__}"


@pytest.mark.slow
def test_a_warning_says_that_the_splits_of_a_folder_became_classes(tmp_path: Path) -> None:
    names = [f"{split}/{kind}/1.png" for split in ("train", "val") for kind in ("cat", "dog")]
    source = write_tree(tmp_path / "photos", {name: png(8, 8, 2) for name in names})
    warned = f"the classes are train, val; if these are splits, open one, as {source}/train"
    with pytest.warns(UserWarning, match="if these are splits") as said:
        hr.Dataset(source).close()
    assert said[0].filename == __file__
    for command in (["pack", source, tmp_path / "p"], ["info", source], ["index", source]):
        assert warned in run(*command).stderr, command
    for part, kinds in (("train", "cat, dog"), ("val", "cat, dog")):
        told = run("info", source / part)
        assert told.stderr == ""
        assert kinds in told.stdout


def test_no_warning_comes_if_the_splits_are_folders_of_containers(tmp_path: Path) -> None:
    photos = write_tree(tmp_path / "of", {f"{kind}/1.png": png(8, 8, 2) for kind in ("cat", "dog")})
    for split in ("train", "val"):
        (tmp_path / "tars" / split).mkdir(parents=True)
        with tarfile.open(tmp_path / "tars" / split / "a.tar", "w") as tar:
            tar.add(photos, "photos")
    done = run("index", tmp_path / "tars", "--split", "train", "--out", tmp_path / "index")
    assert "classes      2" in done.stdout
    assert "if these are splits" not in done.stderr


@pytest.mark.slow
def test_split_with_a_folder_of_class_folders_is_an_error_that_names_the_splits_folder(
    tmp_path: Path,
) -> None:
    source = write_tree(tmp_path / "photos", {"train/cat/1.png": png(8, 8, 2)})
    for command in (["info", source], ["pack", source, tmp_path / "p"]):
        said = sentence(*command, "--split", "train")
        assert f"a folder of images; the folder {source}/train may be opened by itself" in said
        assert "opened by itself" not in sentence(*command, "--split", "test")


def test_the_error_for_a_file_that_is_no_container_says_what_takes_such_files(
    tmp_path: Path,
) -> None:
    for name, words in {
        "a.jpg": "single images are for headrace.Dataset.from_files",
        "a.json": "a list of files is for headrace.pack",
        "a.txt": "(expected one of webdataset, tar, tfrecord, ",
    }.items():
        (tmp_path / name).write_bytes(b"something")
        assert words in sentence("info", tmp_path / name)


@pytest.mark.slow
def test_a_notice_about_re_encoding_comes_only_if_images_are_re_encoded(
    folder: Path, tmp_path: Path
) -> None:
    done = run("pack", folder, tmp_path / "p", "--quality", "50")
    assert "Re-encoding" in done.stderr
    assert "LOSSY: 24 of 24 images were re-encoded (quality 50)" in done.stdout
    assert "Re-encoding" not in run("pack", tmp_path / "none", tmp_path / "q", status=1).stderr


def test_output_for_people_has_one_line_for_each_fact(tmp_path: Path) -> None:
    files = {f"a/{number:04}.png": png(2, 2, 2, seed=number) for number in range(1200)}
    source = write_tree(tmp_path / "source", {**files, "a/bad.jpg": b"no image"})
    done = run("pack", source, tmp_path / "p")
    facts = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert facts["images"] == "1,201"
    assert facts["codec"] == "png (1,200), unknown (1)"
    assert facts["verdict"] == "good (1,200), bad (1)"
    assert done.stderr.splitlines() == [
        "1 faulty image, kept with that verdict in the index:",
        f"{source}/a/bad.jpg: record 1200 at byte 0: neither JPEG, PNG, WebP, GIF, BMP, "
        "TIFF nor PPM, nor any other known type of image",
    ]
    assert "images" in run("info", tmp_path / "p").stdout


def test_faults_known_since_packing_are_listed_apart() -> None:
    fault = {"file": "a.tar", "record": 3, "offset": 512, "reason": "no image"}
    assert summary.known_faults({"known_faults": 1, "known": [fault]}) == [
        "1 image was faulty when packed:",
        "a.tar: record 3 at byte 512: no image",
    ]
    assert summary.known_faults({"known_faults": 3000, "known": [fault] * 2})[::3] == [
        "3,000 images were faulty when packed:",
        "... and 2,998 more",
    ]
    assert (
        summary.known_faults({}) == summary.known_faults({"known_faults": 0, "known": None}) == []
    )


def test_info_reports_shards_that_are_missing_or_truncated(folder: Path, tmp_path: Path) -> None:
    run("pack", folder, tmp_path / "p", "--shard-size", "64KiB")
    one, two = sorted((tmp_path / "p").glob("*.tar"))[:2]
    size = two.stat().st_size
    one.unlink()
    two.write_bytes(b"")
    done = run("info", tmp_path / "p", status=1)
    assert "images" in done.stdout
    assert done.stderr.splitlines() == [
        f"{one}: this shard is missing",
        f"{two}: this shard has 0 bytes, {size:,} were expected",
    ]


def written_to(output: int, arguments: list[Any]) -> subprocess.CompletedProcess[str]:
    """Runs the command with that descriptor as its output, and closes it."""
    try:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *map(str, arguments)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(output)


OUTPUTS = [["info"], ["info", "--json"], ["--version"], ["--help"], ["pack", "--help"], []]


@pytest.mark.every(3)
@pytest.mark.parametrize("arguments", OUTPUTS)
def test_a_command_whose_output_pipe_is_closed_ends_silently_with_status_141(
    packed: Path, arguments: list[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = written_to(writer, [*arguments, *([packed] if "info" in arguments else [])])
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.every(3)
@pytest.mark.parametrize("arguments", OUTPUTS)
def test_output_to_a_full_disk_gives_one_sentence_and_no_traceback(
    packed: Path, arguments: list[str]
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = written_to(full, [*arguments, *([packed] if "info" in arguments else [])])
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("headrace: the output cannot be written: No space left on device")
    assert done.stderr.count("\n") == 1


def test_a_message_that_refers_to_another_argument_names_its_option(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"0.{side}.png": png(8, 8, 2) for side in ("left", "right")})
    with tarfile.open(tmp_path / "two.tar", "w") as tar:
        for name in ("0.left.png", "0.right.png"):
            tar.add(tmp_path / name, name)
    said = sentence("plan", tmp_path / "two.tar", "--rate", "1")
    assert said.endswith("; --image names it\n")


def test_ctrl_c_ends_a_command_with_one_sentence_and_status_130(packed: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "bench", packed, "--seconds", "60", "--batch-size", "8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    maps = Path(f"/proc/{process.pid}/maps")
    while "/dev/zero\n" not in maps.read_text():  # it loads batches
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "headrace: interrupted\n")

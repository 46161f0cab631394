"""Datasets by URL: every batch equals the local dataset's, whatever the store does."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
import images
from headrace import errors
from headrace._command.cli import app
from headrace._engine import away
from processes import run, start
from remote.stores import Answering, Store

COUNT = 117
ORDERS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "windowed": {"shuffle": "window", "window": 40},
    "weighted": {"sampler": hr.samplers.Weighted([1 + i % 5 for i in range(COUNT)], 90)},
    "user": {"sampler": [i * 5 % COUNT for i in range(100)]},
}
SECRET = "c29tZSBzZWNyZXQ"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("remote")
    photos = images.plain_tree(root / "photos", COUNT)
    hr.pack(photos, root / "train.hr", shard_size="64KiB")
    hr.index(photos)
    return root


def loader(dataset: Any, **options: Any) -> hr.Loader:
    settings: dict[str, Any] = {
        "batch_size": 8,
        "seed": 3,
        "transform": [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()],
        "dtype": "uint8",
        "fields": ["index"],
        "num_threads": 1,
    }
    return hr.Loader(dataset, output="numpy", **{**settings, **options})


def samples(batches: Any) -> list[tuple[int, int, bytes]]:
    """Each sample's number, label and pixels."""
    return [
        (int(index), int(label), image.tobytes())
        for pixels, labels, fields in batches
        for index, label, image in zip(fields["index"], labels, pixels, strict=True)
    ]


def epochs(dataset: Any, **options: Any) -> list[tuple[int, int, bytes]]:
    with loader(dataset, **options) as made:
        return samples(made) + samples(made)


@pytest.mark.parametrize("order", ORDERS)
def test_every_batch_equals_that_of_the_dataset_on_disk(
    root: Path, store: Store, order: str
) -> None:
    options = ORDERS[order]
    assert epochs(store.url("train.hr"), **options) == epochs(root / "train.hr", **options)


def test_a_proxy_that_is_set_after_the_first_request_is_used(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hr.Dataset(store.url("train.hr")) as dataset:
        fingerprint = dataset.fingerprint
    monkeypatch.setenv("HTTP_PROXY", store.url(""))
    with hr.Dataset("http://photographs.invalid/train.hr") as dataset:
        assert dataset.fingerprint == fingerprint


def test_neighbours_are_fetched_together_and_each_byte_once(root: Path, store: Store) -> None:
    with hr.Dataset(store.url("train.hr")) as dataset, loader(dataset) as made:
        bytes_ = dataset.info["bytes"]
        assert len(samples(made)) == COUNT
        stats = made.stats()
    # A set, because on a busy machine a second request for the same range may be a hedge.
    records = {one for one in store.requests if one[3] > 1 and one[1].endswith(".tar")}
    fetched = sum(length for *_, length in records)
    # In order the records are consecutive, with only tar headers between them.
    assert len(records) < COUNT / 2
    beyond = 2 * 8  # two batches of the next epoch
    assert bytes_ <= fetched < (bytes_ / COUNT + 2048) * (COUNT + beyond)
    assert stats["remote_requests"] >= len(records)


def test_an_image_folder_with_its_index_is_read_object_by_object(root: Path, store: Store) -> None:
    found = epochs(store.url("photos"), shuffle=True)
    assert found == epochs(root / "photos", shuffle=True)


def test_single_samples_and_facts_equal_those_of_the_dataset_on_disk(
    root: Path, store: Store
) -> None:
    with hr.Dataset(store.url("train.hr")) as away_, hr.Dataset(root / "train.hr") as here:
        assert away_.fingerprint == here.fingerprint
        assert away_.classes == here.classes
        for number in (0, 50, -1):
            assert np.array_equal(away_[number].image, here[number].image)
        assert away_.facts(5)["path"].startswith(store.url("train.hr/shard-"))


def test_parts_of_a_concatenation_may_lie_in_a_store_and_on_disk(root: Path, store: Store) -> None:
    here = [root / "train.hr", root / "train.hr"]
    assert epochs([store.url("train.hr"), root / "train.hr"], shuffle=True) == epochs(
        here, shuffle=True
    )


def test_the_memory_for_fetching_ahead_may_be_small(root: Path, store: Store) -> None:
    options = {"shuffle": True, "fetch_ahead": "1.1MB"}
    assert epochs(store.url("train.hr"), **options) == epochs(root / "train.hr", shuffle=True)


@pytest.mark.parametrize("order", ["shuffled", "windowed", "user"])
def test_an_epoch_is_resumed_mid_epoch_and_can_be_moved_back(
    root: Path, store: Store, order: str
) -> None:
    options = ORDERS[order]
    with loader(root / "train.hr", **options) as made:
        whole = samples(made)
    with loader(store.url("train.hr"), **options) as made:
        batches = iter(made)
        begun = [next(batches) for _ in range(5)]
        state = made.state_dict()
        assert samples(begun) == whole[:40]
        made.load_state_dict(state)
        assert samples(made) == whole[40:]
    with loader(store.url("train.hr"), **options) as made:
        made.load_state_dict(state)
        assert samples(made) == whole[40:]


def test_a_dataloader_over_a_url_gives_the_batches_of_the_dataset_on_disk(
    root: Path, store: Store
) -> None:
    def batches(source: Any) -> list[bytes]:
        torch.manual_seed(5)
        with hr.Dataset(source) as dataset:
            made = hr.DataLoader(dataset, 8, shuffle=True, transform=[hr.transforms.CenterCrop(8)])
            return [pixels.numpy().tobytes() for pixels, _ in made]

    assert batches(store.url("train.hr")) == batches(root / "train.hr")


def test_a_dataset_in_a_store_is_verified_and_its_damage_named(tmp_path: Path) -> None:
    hr.pack(images.plain_tree(tmp_path / "photos", 20), tmp_path / "train.hr")
    with hr.Dataset(tmp_path / "train.hr") as dataset:
        at = int(dataset.facts(7)["offset"])
    store = Store(tmp_path)
    try:
        assert hr.verify(store.url("train.hr"), storage={})["ok"]
        shard = tmp_path / "train.hr" / "shard-00000.tar"
        data = bytearray(shard.read_bytes())
        data[at + 300] ^= 255
        shard.write_bytes(data)
        found = hr.verify(store.url("train.hr"))
        assert [fault["record"] for fault in found["faults"]["listed"]] == [7]
        for refused in (hr.pack, hr.index):
            with pytest.raises(errors.UnsupportedError, match="expected containers"):
                refused(store.url("train.hr"), tmp_path / "out.hr")
    finally:
        store.end()


def test_a_verification_fetches_each_byte_of_a_shard_once(tmp_path: Path) -> None:
    hr.pack(images.plain_tree(tmp_path / "photos", 90, side=400), tmp_path / "train.hr")
    store = Store(tmp_path)
    try:
        assert hr.verify(store.url("train.hr"), num_threads=2)["ok"]
        # A set, as above, because of hedges. A request of one byte learns the version.
        asked = {one for one in store.requests if one[1].endswith(".tar") and one[3] > 1}
        size = (tmp_path / "train.hr" / "shard-00000.tar").stat().st_size
        assert sum(length for *_, length in asked) == size
    finally:
        store.end()


@pytest.mark.slow
def test_the_command_line_measures_and_shows_a_dataset_at_an_address(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url, told = store.url("train.hr"), ["--storage", "region=here"]
    measured = ["--seconds", "1", "--size", "16", "--json"]
    app(["bench", url, *told, *measured], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert found["images"] > 0
    assert "remote_requests" in found
    app(["doctor", url, *told, *measured], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert found["measured"]["decoding"] > 0
    known = found["measured"]["storage"] is not None
    said = "the images are in a store" if known else "the store of objects kept up"
    assert sum(note.startswith(said) for note in found["notes"]) == 1
    assert not any("not bytes in files" in note for note in found["notes"])
    app(["view", url, str(tmp_path / "view.png"), "--count", "4", *told], standalone_mode=False)
    assert (tmp_path / "view.png").stat().st_size > 0


def test_a_plan_for_a_dataset_in_a_store_equals_that_of_the_local_dataset(
    store: Store, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--rate", "10", "--json"]
    app(["plan", store.url("train.hr"), "--storage", "region=here", *asked], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    here = hr.plan(root / "train.hr", rate=10)
    assert found.pop("asked") | {"source": ""} == here.asked | {"source": ""}
    assert found == {name: value for name, value in dict(here).items() if name != "asked"}


def test_a_plan_with_given_bytes_per_image_fetches_no_image_from_a_store(store: Store) -> None:
    plan = hr.plan(store.url("train.hr"), rate=10, image_bytes=1000)
    assert plan.storage["files"] == COUNT * 1000
    assert not [one for one in store.requests if one[1].endswith(".tar") and one[3] > 1]


def test_the_command_line_takes_addresses(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("info", "verify"):
        arguments = [command, store.url("train.hr"), "--storage", "region=here", "--json"]
        app(arguments, standalone_mode=False)
        found = json.loads(capsys.readouterr().out)
        assert found["path"] == store.url("train.hr")
        assert found["rows"] == COUNT


def test_info_says_what_was_requested_from_the_store(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = ["info", store.url("train.hr"), "--cache", str(tmp_path / "cache")]
    told += ["--cache-size", "8MB", "--json"]
    found = []
    for _ in range(2):
        store.requests.clear()
        app(told, standalone_mode=False)
        found.append(json.loads(capsys.readouterr().out)["fetched"])
        # Requests for sizes and versions transfer no bytes of an object.
        asked = sum(length for method, _, _, length in store.requests if method == "GET")
        assert found[-1]["requests"] == len(store.requests)
        assert asked - 1 <= found[-1]["bytes"] <= asked
    first, second = found
    assert (first["hits"], first["retries"], first["hedges"]) == (0, 0, 0)
    assert first["waited_s"] > 0
    assert first["bytes_per_second"] > 0
    assert second["hits"] == 1  # the index
    assert second["bytes"] < first["bytes"]
    store.fault = lambda answering, *_: draw.random() < 0.5 and answering.refuse(503) is None
    draw = random.Random(2)
    app(told[:2], standalone_mode=False)
    said = capsys.readouterr().out
    assert re.search(
        r"fetched .*\d requests, [\d,]+ bytes at [\d.e-]+ MB/s, 0 hits of the cache, "
        r"[1-9]\d* (retry|retries), 0 hedges, [\d.]+ s waited",
        said,
    ), said
    with hr.Dataset(store.root / "train.hr") as here:
        assert here.fetched == {}


def failing(share: float, how: str) -> Any:
    """A fault that some requests for records meet, drawn from a seed."""
    draw, lock = random.Random(7), threading.Lock()

    def fault(answering: Answering, body: bytes, first: int, whole: int) -> bool:
        with lock:
            bad = draw.random() < share and ".tar" in answering.path
        if bad and how == "503":
            answering.refuse(503)
        elif bad and how == "cut" and answering.command == "GET":
            answering.cut(body, len(body) // 2, first, whole)
        elif bad and how == "reset":
            answering.reset()
        else:
            return False
        return True

    return fault


@pytest.mark.parametrize("how", ["503", "cut", "reset"])
def test_an_epoch_survives_failures_of_a_tenth_of_all_requests(
    root: Path, store: Store, how: str
) -> None:
    store.fault = failing(0.1, how)
    options = {"shuffle": True}
    with loader(store.url("train.hr"), **options) as made:
        found = samples(made)
        assert made.stats()["remote_retries"] > 0
    with loader(root / "train.hr", **options) as made:
        assert found == samples(made)


def test_a_replaced_shard_is_an_error_that_names_it(tmp_path: Path) -> None:
    photos = images.plain_tree(tmp_path / "photos", 20)
    hr.pack(photos, tmp_path / "train.hr")
    store = Store(tmp_path)
    shard = tmp_path / "train.hr" / "shard-00000.tar"
    try:
        with hr.Dataset(store.url("train.hr")) as dataset:
            dataset.read(0)
            data = bytearray(shard.read_bytes())
            data[-1] ^= 1
            shard.write_bytes(data)
            with pytest.raises(errors.ChangedError, match=r"shard-00000\.tar.*replaced.*412"):
                dataset.read(1)
    finally:
        store.end()


def test_a_shard_of_another_length_is_not_read(tmp_path: Path) -> None:
    photos = images.plain_tree(tmp_path / "photos", 20)
    hr.pack(photos, tmp_path / "train.hr")
    shard = tmp_path / "train.hr" / "shard-00000.tar"
    shard.write_bytes(shard.read_bytes()[:-512])
    store = Store(tmp_path)
    try:
        with (
            loader(store.url("train.hr")) as made,
            pytest.raises(errors.TruncatedError, match=r"shard-00000\.tar.*expected \d+ bytes"),
        ):
            samples(made)
    finally:
        store.end()


def test_a_damaged_record_is_the_samples_error_or_is_replaced(tmp_path: Path) -> None:
    photos = images.plain_tree(tmp_path / "photos", 20)
    hr.pack(photos, tmp_path / "train.hr")
    with hr.Dataset(tmp_path / "train.hr") as dataset:
        at = int(dataset.facts(7)["offset"])
    shard = tmp_path / "train.hr" / "shard-00000.tar"
    data = bytearray(shard.read_bytes())
    data[at + 300] ^= 255
    shard.write_bytes(data)
    store = Store(tmp_path)
    try:
        with (
            loader(store.url("train.hr")) as made,
            pytest.raises(errors.ChecksumError, match=r"http://.*: record 7 .*CRC-32C of"),
        ):
            samples(made)
        with loader(store.url("train.hr"), on_error="replace") as made:
            numbers = [number for number, *_ in samples(made)]
            assert len(numbers) == 20
            assert 7 not in numbers
            assert [line["index"] for line in made.report()] == [7]
    finally:
        store.end()


def test_a_store_that_stops_answering_is_a_timeout_and_close_does_not_wait_for_it(
    store: Store,
) -> None:
    over = threading.Event()

    def silent(answering: Answering, *_: object) -> bool:
        if ".tar" in answering.path:
            over.wait(30)
            answering.reset()
            return True
        return False

    store.fault = silent
    try:
        with (
            loader(store.url("train.hr"), timeout=0.3) as made,
            pytest.raises(errors.WaitTimeoutError),
        ):
            next(iter(made))
        began = time.monotonic()
        made.close()
        assert time.monotonic() - began < 5
    finally:
        over.set()


def test_a_dataset_without_an_index_is_refused_with_the_command_that_makes_one(
    store: Store,
) -> None:
    for name in ("nothing.hr", "shard-{000..003}.tar", "*.tar"):
        with pytest.raises(
            errors.UnsupportedError, match=f'headrace index "{re.escape(store.url(name))}"'
        ):
            hr.Dataset(store.url(name))


def test_a_manifest_that_names_files_elsewhere_is_refused(tmp_path: Path) -> None:
    hr.pack(images.plain_tree(tmp_path / "photos", 3), tmp_path / "train.hr")
    manifest = tmp_path / "train.hr" / "headrace.json"
    manifest.write_text(manifest.read_text().replace("shard-00000.tar", "../../etc/x.tar"))
    store = Store(tmp_path)
    try:
        with pytest.raises(errors.HeadraceError):
            hr.Dataset(store.url("train.hr"))
        assert all("etc" not in path for _, path, *_ in store.requests)
    finally:
        store.end()


def test_no_text_contains_a_secret_of_an_address_or_of_options(store: Store) -> None:
    texts = []
    signed = f"{store.url('train.hr')}?X-Amz-Signature={SECRET}"
    with loader(signed) as made:
        samples(made)
        texts += [repr(made.dataset), str(made.state_dict()), str(made.stats())]
        texts += [str(made.dataset.info), str(made.dataset.facts(0))]
        texts.append(json.dumps(made.dataset.fetched))
    assert all(SECRET in path for _, path, *_ in store.requests)
    for url, options in [
        (f"{store.url('nothing.hr')}?token={SECRET}", {}),
        (store.url("train.hr").replace("//", f"//user:{SECRET}@") + "/missing", {}),
        (store.url("train.hr"), {"endpoint": f"https://name:{SECRET}@host"}),
        (store.url("train.hr"), {SECRET: 3}),
        (store.url("train.hr"), {"password": SECRET}),
    ]:
        with pytest.raises(errors.HeadraceError) as caught:
            hr.Dataset(url, storage=options)
        texts.append(repr(caught.value))
    store.fault = lambda answering, *_: answering.refuse(403) or True
    with pytest.raises(errors.DeniedError) as denied:
        hr.Dataset(signed)
    texts.append(str(denied.value))
    assert [text for text in texts if SECRET in text] == []


TRACED = """
    import sys
    import headrace as hr
    url, trace, cache = sys.argv[1:]
    with hr.Loader(url, 8, output="numpy", shuffle=True, timeout=20, cache=cache, cache_size="8MB",
                   transform=[hr.transforms.CenterCrop(8)], storage={"region": "here"}) as loader:
        loader.trace(trace)
        print(sum(len(labels) for _, labels in loader), loader.state_dict())
        loader.trace(None)
"""


def test_no_secret_is_in_a_trace_a_cache_or_a_programs_output(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    store.fault = failing(0.2, "503")
    signed = f"{store.url('train.hr')}?X-Amz-Signature={SECRET}"
    process = start(TRACED, signed, tmp_path / "run.json", tmp_path / "cache")
    said = "".join(process.communicate(timeout=60))
    assert process.returncode == 0, said
    assert said.startswith(f"{COUNT} ")
    assert SECRET not in said
    written = [*(tmp_path / "cache").iterdir(), tmp_path / "run.json"]
    assert len(written) == 7
    for file in written:
        assert file.stat().st_size > 0 or file.name == "headrace-cache.lock"
        assert SECRET.encode() not in file.read_bytes(), file.name


READING = """
    import sys
    import headrace as hr
    with hr.Loader(sys.argv[1], 8, output="numpy", shuffle=True, num_threads=1,
                   transform=[hr.transforms.CenterCrop(8)]) as loader:
        for _ in range(2):
            print(sum(len(labels) for _, labels in loader))
"""


def test_without_a_cache_nothing_is_written_to_disk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(tmp_path)
    for name in ("train.hr", "photos"):
        assert run(READING, store.url(name)).split() == [str(COUNT)] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, errors.DeniedError),
        (403, errors.DeniedError),
        (404, errors.MissingFileError),
        (412, errors.ChangedError),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "replace"])
def test_a_store_that_refuses_mid_epoch_is_an_error_with_address_and_status(
    store: Store, status: int, error: type[errors.HeadraceError], on_error: str
) -> None:
    with loader(store.url("train.hr"), on_error=on_error, read_ahead=8) as made:
        batches = iter(made)
        next(batches)
        store.fault = lambda answering, *_: answering.refuse(status) or True
        with pytest.raises(error, match=rf"http://.*shard-\d+\.tar: .*{status}") as caught:
            samples(batches)
        assert "?" not in str(caught.value)
        store.fault = None  # and the loader resumes at its position
        assert samples(made)


def test_python_knows_the_schemes_of_the_engine() -> None:
    source = Path(__file__).parents[2] / "internal" / "remote" / "address.go"
    listed = re.search(r"var schemes = \[\]string\{(.*?)\}", source.read_text())
    assert listed is not None
    assert tuple(re.findall(r'"(\w+)"', listed[1])) == away.SCHEMES


def test_an_address_in_capitals_is_accepted_and_its_secrets_are_in_no_text(
    root: Path, store: Store, tmp_path: Path
) -> None:
    loud = store.url("train.hr").replace("http://", f"HTTP://user:{SECRET}@")
    assert epochs(f"{loud}?sig={SECRET}") == epochs(root / "train.hr")
    missing = f"{loud}/missing?sig={SECRET}"
    texts = []
    for call in (
        lambda: hr.Dataset(missing),
        lambda: loader(missing),
        lambda: hr.DataLoader(hr.Dataset(missing), batch_size=8),
        lambda: hr.Dataset(root / "train.hr", root=missing),
        lambda: hr.index(missing, out=tmp_path / "index.hr"),
        lambda: hr.pack(missing, tmp_path / "packed.hr"),
        lambda: hr.pack(root / "photos", missing),
        lambda: hr.plan(missing),
        lambda: hr.Dataset.from_files([missing], [0]),
    ):
        with pytest.raises(errors.HeadraceError) as caught:
            call()
        texts.append(str(caught.value))
    assert [text for text in texts if SECRET in text] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("https://name:secret@host/train.hr?sig=secret#x", "https://host/train.hr"),
        ("s3://bucket/train.hr", "s3://bucket/train.hr"),
        ("/data/train.hr", "/data/train.hr"),
    ],
)
def test_an_address_is_printed_without_its_secrets_and_a_path_unchanged(
    address: str, text: str
) -> None:
    assert away.shown(address) == text

"""Each kind of error, from its cause to the Python class and the message.

internal/fault/kinds.json is the list; a kind that nothing here causes fails a test.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
import processes
from headrace import errors
from headrace._engine import _lib, abi
from remote.stores import Answering, Fault, Silent, Store

LIST = Path(__file__).parents[2] / "internal" / "fault" / "kinds.json"
KINDS = {kind["name"]: kind for kind in json.loads(LIST.read_text())}

JPEG = images.jpeg(40, 30)
CHILD = """
    import os, sys
    import headrace as hr
    with hr.Loader(sys.argv[1], 2, transform=[hr.transforms.RandomResizedCrop(8)]) as loader:
        next(iter(loader))
    child = os.fork()
    if child == 0:
        try:
            hr.functional.decode(b"")
        except hr.HeadraceError as error:
            print(type(error).__name__, error, sep=": ", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def a_handle_that_was_never_one(packed: Path, place: Path) -> None:
    _lib.call("hr_close", 77)


def an_impossible_argument(packed: Path, place: Path) -> None:
    hr.Loader(packed, 2, transform=[{"name": "CenterCrop", "size": -1}])


def a_file_that_is_no_manifest(packed: Path, place: Path) -> None:
    copy = shutil.copytree(packed, place / "copy.hr")
    (copy / "headrace.json").write_bytes(b"no manifest")
    hr.Dataset(copy)


def bytes_that_are_no_image(packed: Path, place: Path) -> None:
    hr.functional.decode(JPEG[:20] + bytes(200) + JPEG[220:])


def a_cut_image(packed: Path, place: Path) -> None:
    hr.functional.decode(JPEG[: len(JPEG) // 2])


def other_bytes_than_were_packed(packed: Path, place: Path) -> None:
    copy = shutil.copytree(packed, place / "copy.hr")
    (shard,) = copy.glob("*.tar")
    whole = bytearray(shard.read_bytes())
    whole[len(whole) // 3] ^= 255
    shard.write_bytes(whole)
    with hr.Loader(copy, 8, transform=[hr.transforms.CenterCrop(8)]) as loader:
        list(loader)


def an_image_of_a_kind_that_is_not_read(packed: Path, place: Path) -> None:
    hr.functional.decode(b"\xff\x4f\xff\x51" + bytes(60))  # a JPEG 2000 code stream


def more_pixels_than_are_allowed(packed: Path, place: Path) -> None:
    hr.functional.decode(JPEG, limits={"max_pixels": 100})


def an_image_too_narrow_for_its_size(packed: Path, place: Path) -> None:
    images.write_tree(place / "photos" / "class", {"narrow.png": images.png(1, 500, 2)})
    narrower = [hr.transforms.Resize(45, max_size=60), hr.transforms.CenterCrop(8)]
    with hr.Loader(place / "photos", 1, transform=narrower) as loader:
        list(loader)


def a_destination_whose_name_is_too_long(packed: Path, place: Path) -> None:
    images.plain_tree(place / "photos", 2, 1)
    hr.pack(place / "photos", place / ("long" * 100))


def a_batch_that_no_memory_holds(packed: Path, place: Path) -> None:
    hr.Loader(packed, 1 << 30, transform=[hr.transforms.CenterCrop(4096)])


def two_samples_of_one_key(packed: Path, place: Path) -> None:
    with hr.Writer(place / "packed.hr") as writer:
        writer.add(JPEG, label=0, key="same")
        writer.add(JPEG, label=0, key="same")


def a_folder_without_an_image(packed: Path, place: Path) -> None:
    (place / "empty" / "class").mkdir(parents=True)
    hr.pack(place / "empty", place / "packed.hr", allow_empty=True)


def a_child_of_a_process_that_uses_it(packed: Path, place: Path) -> None:
    name, _, sentence = processes.run(CHILD, packed).strip().partition(": ")
    raise getattr(errors, name)(sentence)


def a_loader_that_is_closed(packed: Path, place: Path) -> None:
    loader = hr.Loader(packed, 2, transform=[hr.transforms.CenterCrop(8)])
    batches = iter(loader)
    loader.close()
    next(batches)


def an_answer_that_says_so(packed: Path, place: Path) -> None:
    """No fault of the engine is known, so this begins with its answer.

    That a panic gives this answer is tested in internal/pipeline,
    TestAPanicIsAnInternalErrorOfItsBatch..., and in capi.
    """
    raise abi.Error(18, 0, -1, -1, b"", b"internal: odd; please report this").exception()


@contextlib.contextmanager
def a_store(folder: Path) -> Iterator[Store]:
    made = Store(folder)
    try:
        yield made
    finally:
        made.end()


def an_object_that_was_replaced(packed: Path, place: Path) -> None:
    shutil.copytree(packed, place / "copy.hr")
    (shard,) = (place / "copy.hr").glob("*.tar")
    with a_store(place) as store, hr.Dataset(store.url("copy.hr")) as dataset:
        dataset.read(0)
        shard.write_bytes(bytes(shard.stat().st_size))
        dataset.read(1)


def an_answer_of(status: int, headers: dict[str, str]) -> Fault:
    def answer(request: Answering, body: bytes, first: int, whole: int) -> bool:
        request.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        return True

    return answer


def a_store_that_refuses(packed: Path, place: Path) -> None:
    with a_store(packed.parent) as store:
        store.fault = an_answer_of(403, {})
        hr.Dataset(store.url(packed.name))


def a_store_that_fails_each_time(packed: Path, place: Path) -> None:
    with a_store(packed.parent) as store:
        store.fault = an_answer_of(503, {"Retry-After": "3600"})
        hr.Dataset(store.url(packed.name))


def a_store_that_takes_longer_than_it_may(packed: Path, place: Path) -> None:
    server = Silent()
    try:
        hr.verify(f"{server.endpoint}/{packed.name}", timeout=0.1)
    finally:
        server.end()


PROVOKED: dict[str, Callable[[Path, Path], Any]] = {
    "BadHandle": a_handle_that_was_never_one,
    "Argument": an_impossible_argument,
    "BadFile": a_file_that_is_no_manifest,
    "BadImage": bytes_that_are_no_image,
    "Truncated": a_cut_image,
    "Checksum": other_bytes_than_were_packed,
    "Unsupported": an_image_of_a_kind_that_is_not_read,
    "Limit": more_pixels_than_are_allowed,
    "IO": a_destination_whose_name_is_too_long,
    "Memory": a_batch_that_no_memory_holds,
    "DuplicateKey": two_samples_of_one_key,
    "Empty": a_folder_without_an_image,
    "Forked": a_child_of_a_process_that_uses_it,
    "Closed": a_loader_that_is_closed,
    "Internal": an_answer_that_says_so,
    "Changed": an_object_that_was_replaced,
    "Denied": a_store_that_refuses,
    "Unreachable": a_store_that_fails_each_time,
    "NoPixels": an_image_too_narrow_for_its_size,
    "Late": a_store_that_takes_longer_than_it_may,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_error_has_its_class_and_its_message_begins_with_its_family(
    packed: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(hr.HeadraceError) as caught:
        PROVOKED[name](packed, tmp_path)
    assert type(caught.value).__name__ == KINDS[name]["class"]
    sentence = str(caught.value)
    family = KINDS[name].get("family")
    for word in ("bad", "unsupported", "internal"):
        assert (f"{word}: " in sentence) == (word == family), sentence
    if caught.value.file is not None and os.path.exists(caught.value.file):
        assert sentence.startswith(caught.value.file)

"""A dataset as the engine has it: a configuration that is opened when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace._arrays import held
from headrace._engine import _lib, arguments, away, pairs, scanning

BACKENDS = ("auto", "mmap", "pread")


class Configured:
    """The base of ``Dataset``: everything that does not depend on how its configuration was made.

    It is pickled as that configuration, and opened again when it is unpickled.
    """

    def _open(
        self,
        config: dict[str, Any],
        backend: str,
        verify_crc: bool,
        limits: Mapping[str, int] | None,
        timeout: float | None = None,
    ) -> None:
        config["backend"] = arguments.choice("backend", backend, BACKENDS)
        config["verify_crc"] = arguments.flag("verify_crc", verify_crc)
        if limits is not None:
            config["limits"] = arguments.limits(limits)
        self.__setstate__({"config": config, "timeout": timeout})
        self.handle  # noqa: B018 - opens it: a bad path is refused here

    def __getstate__(self) -> dict[str, Any]:
        held.check_given_back(self._config)
        timed = {} if self._timeout is None else {"timeout": self._timeout}
        return {"config": self._config, **timed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._config: dict[str, Any] = state["config"]
        self._timeout: float | None = state.get("timeout")
        self._handle: _lib.Handle | None = None
        self._arrays = [array["memory"] for array in held.within(self._config)]
        self._facts: dict[str, Any] = {}

    @property
    def handle(self) -> int:
        """The engine's handle of this dataset; it is opened if it is not open yet."""
        for array in self._arrays:
            array.check_in_place()
        if self._handle is None:
            with scanning.shown():
                self._handle = self._waited_for(
                    lambda: _lib.opened("hr_dataset_open", self._config), lambda made: made.close()
                )
            self.lend_arrays(self._handle)
        return self._handle.value

    @property
    def away(self) -> bool:
        """Whether the dataset, or a part of it, lies in an object store."""
        sources = [self._config, *self._config.get("parts", ())]
        told = any(away.is_url(source.get("path")) for source in sources)
        return told or bool(self._facts.get("away"))  # a local index of containers in a store

    @property
    def cached(self) -> bool:
        """Whether loaders keep what they fetch from a store in a directory on disk."""
        return "cache" in self._config

    def _waited_for(self, call: Callable[[], Any], forgotten: Callable[[Any], object]) -> Any:
        if not self.away:
            return call()
        sources = [self._config, *self._config.get("parts", ())]
        # An index on disk names its containers in the store, so it goes first: it is what the
        # program knows of them.
        paths = sorted((str(source.get("path")) for source in sources), key=away.is_url)
        with away.within(self._timeout):
            return away.patiently(call, forgotten, paths[-1])

    def lend_arrays(self, handle: _lib.Handle) -> None:
        """Keeps the arrays that its images are read from until the reading object ``handle`` is
        closed, whatever becomes of the dataset."""
        if self._arrays:
            handle.keep({number: one.array for number, one in enumerate(self._arrays)})

    def source_config(self) -> dict[str, Any] | None:
        """Returns its configuration for the engine's jobs; None if they take no such dataset."""
        config = self._config
        if "array" in config:
            held.check_given_back(config)
        elif self.kind not in ("scanned", "contained") or "root" in config or "parts" in config:
            return None
        reading = ("backend", "verify_crc")
        return {name: value for name, value in config.items() if name not in reading}

    def further_images(self) -> list[str]:
        """Returns the fields that are second images of pairs in folders."""
        return pairs.further_images(self._config)

    @property
    def info(self) -> dict[str, Any]:
        """Facts about the whole dataset: rows, classes, kind, fields, shards, bytes and others."""
        if not self._facts:
            facts = _lib.info("hr_dataset_info", self.handle, -1)
            facts.pop("fetched", None)
            self._facts = facts
        return self._facts

    @property
    def fetched(self) -> dict[str, float]:
        """What was requested so far from the object store in which the dataset is.

        Returns:
            ``requests``, ``bytes``, ``hits`` of the cache, ``retries``, ``hedges`` (duplicate
            requests), ``bytes_per_second`` over the time in which any request was in progress, and
            ``waited_s``, the seconds that all requests took together. It is empty for a dataset on
            a local disk. What loaders found in the cache is in their ``stats()``.
        """
        return dict(_lib.info("hr_dataset_info", self.handle, -1).get("fetched", {}))

    @property
    def kind(self) -> str:
        return str(self.info["kind"])

    def _described(self) -> str:
        """Says in a few words where its samples come from."""
        config = self._config
        if (parts := config.get("parts")) is not None:
            return f"{len(parts)} datasets"
        if "pairs" in config:
            return str(config["pairs"]["first"])
        if "locations" in config:
            return f"{len(config['locations']['files'])} files by locations"
        if "containers" in config:
            return f"{len(config['containers'])} containers"
        if "array" in config:
            return "an array in memory" if "memory" in config["array"] else "arrays in files"
        path = config.get("path", "files in place")
        return str(self.info["path"] if away.is_url(path) else path)  # without its secrets

    def close(self) -> None:
        """Closes the files. Loaders made of this dataset keep what they need."""
        if self._handle is None:
            return
        self._handle.close()
        self._arrays = []
        for array in held.within(self._config):
            array["memory"] = None

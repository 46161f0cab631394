"""What every loader of this process measures: the fields of ``stats()`` and their meanings."""

from __future__ import annotations

# Each field is a total since the loader was opened ("counter") or the present value ("gauge"), with
# a description. docs/doctor.md has the same list, and a test compares the two.
FIELDS = {
    "images_per_second": (
        "gauge",
        "images delivered a second, since the first batch was asked for",
    ),
    "bytes_per_second": (
        "gauge",
        "encoded bytes read a second, since the first batch was asked for",
    ),
    "samples": ("counter", "samples in the delivered batches"),
    "batches": ("counter", "delivered batches"),
    "images_decoded": (
        "counter",
        "decoded images, including those of batches that are not delivered yet",
    ),
    "images_with_seek_points": (
        "counter",
        "decoded images whose seek points were known, from an index or from the learned index",
    ),
    "blocks_decoded": ("counter", "decoded compressed blocks of containers: pages, frames, chunks"),
    "bytes_read": ("counter", "encoded bytes read"),
    "reading_s": (
        "counter",
        "seconds spent reading, summed over decode threads and reader threads",
    ),
    "decoding_s": (
        "counter",
        "seconds spent decoding and augmenting, summed over all decode threads",
    ),
    "waiting_for_bytes_s": ("counter", "seconds that decode threads waited for bytes, summed"),
    "waiting_for_consumer_s": (
        "counter",
        "seconds that decode threads waited because prefetch allowed no further batch, or because "
        "a dataset's own code had opened no further image, summed",
    ),
    "consumer_waiting_s": (
        "counter",
        "seconds that next() waited for batches, including the time of a dataset's own code",
    ),
    "stall_p50_s": ("gauge", "median of the time that next() waited for a batch, in seconds"),
    "stall_p99_s": (
        "gauge",
        "99th percentile of the time that next() waited for a batch, in seconds",
    ),
    "stall_max_s": ("gauge", "longest time that next() waited for a batch, in seconds"),
    "batches_ready": ("gauge", "complete batches that next() can return at once"),
    "batches_open": ("gauge", "batches that are in progress or complete, and not delivered yet"),
    "records_queued": (
        "gauge",
        "records that were read ahead, or are in a store's cache, and are not decoded yet",
    ),
    "reading_ahead": (
        "gauge",
        "1 while reader threads read ahead of the decode threads, because storage is slow; else 0",
    ),
    "threads": ("gauge", "decode threads"),
    "remote_requests": (
        "counter",
        "requests to object stores for records, including retries and hedges; this and the other "
        "remote fields are summed over all loaders of the dataset",
    ),
    "remote_bytes": ("counter", "bytes of records fetched from object stores"),
    "remote_bytes_per_second": (
        "gauge",
        "bytes of records and seek points a second, over the time in which any request was in "
        "progress",
    ),
    "remote_index_bytes": ("counter", "bytes of the index fetched from an object store"),
    "remote_seek_bytes": ("counter", "bytes of seek points fetched from an object store"),
    "remote_retries": (
        "counter",
        "requests to object stores that were sent again because one had failed",
    ),
    "remote_hedges": (
        "counter",
        "duplicate requests that were sent because the first one was slow",
    ),
    "remote_merged": ("counter", "records that were fetched with another record's request"),
    "remote_at_once": (
        "gauge",
        "requests that may be in flight at once, adapted to the measured link",
    ),
    "remote_waited_s": (
        "counter",
        "seconds that requests to object stores took, summed over all requests",
    ),
    "cache_hits": ("counter", "records that were read from the cache on disk"),
    "cache_hit_bytes": ("counter", "bytes of the records that were read from the cache on disk"),
    "cache_dropped": (
        "counter",
        "parts of the cache that were dropped because their checksum was wrong",
    ),
    "cache_bytes": ("gauge", "bytes of records in the cache, for all processes that use it"),
    "cache_planned": (
        "gauge",
        "1: the cache drops what is needed furthest in the future; 0: what was used least recently",
    ),
    "cache_planned_ahead": (
        "gauge",
        "if cache_planned is 0: samples that were submitted and are not delivered yet, which the "
        "cache keeps before all others",
    ),
    "replaced": ("counter", "samples of delivered batches that were replaced by another sample"),
    "warned": ("counter", "samples of delivered batches for which the decoder gave a warning"),
}


def nothing() -> dict[str, float]:
    """All fields of a loader whose threads have not begun."""
    return dict.fromkeys(FIELDS, 0)

"""What every loader of this process measures: the fields of ``stats()``, and what each says."""

from __future__ import annotations

# Whether each is a total since the loader was opened ("counter")
# or of now ("gauge"), and what it says. docs/doctor.md has the same list.
FIELDS = {
    "images_per_second": (
        "gauge",
        "images delivered a second, since the first batch was asked for",
    ),
    "bytes_per_second": (
        "gauge",
        "encoded bytes read a second, since the first batch was asked for",
    ),
    "samples": ("counter", "samples in the batches delivered"),
    "batches": ("counter", "batches delivered"),
    "images_decoded": ("counter", "images decoded, also those of batches not delivered yet"),
    "images_with_seek_points": (
        "counter",
        "of the images decoded, those whose seek points were in the index, or in the cache of what "
        "was learned",
    ),
    "blocks_decoded": ("counter", "compressed blocks of containers decoded: pages, frames, chunks"),
    "bytes_read": ("counter", "encoded bytes read"),
    "reading_s": ("counter", "seconds in reads, of decode threads and readers together"),
    "decoding_s": ("counter", "seconds of decoding and augmenting, of all decode threads together"),
    "waiting_for_bytes_s": ("counter", "seconds that decode threads slept for want of bytes"),
    "waiting_for_consumer_s": (
        "counter",
        "seconds that decode threads slept because prefetch allowed no further batch, or because a "
        "dataset's own code had opened no further image",
    ),
    "consumer_waiting_s": (
        "counter",
        "seconds that next() waited for batches, with the time of a dataset's own code",
    ),
    "stall_p50_s": ("gauge", "median of what next() waited for a batch, in seconds"),
    "stall_p99_s": ("gauge", "99th percentile of what next() waited for a batch, in seconds"),
    "stall_max_s": ("gauge", "longest time that next() waited for a batch, in seconds"),
    "batches_ready": ("gauge", "complete batches that next() would give at once"),
    "batches_open": ("gauge", "batches in work or complete, and not delivered"),
    "records_queued": ("gauge", "records read ahead and not decoded yet"),
    "reading_ahead": (
        "gauge",
        "1 while readers read ahead of the decode threads, as slow storage needs",
    ),
    "threads": ("gauge", "decode threads"),
    "remote_requests": (
        "counter",
        "requests to stores of objects for records, by all loaders of the dataset together, as the "
        "further remote counters; retries and hedges are among them",
    ),
    "remote_bytes": ("counter", "bytes of records fetched from stores of objects"),
    "remote_bytes_per_second": (
        "gauge",
        "bytes of records and seek points a second, while any request to a store was under way",
    ),
    "remote_index_bytes": ("counter", "bytes of the index that were fetched from a store"),
    "remote_seek_bytes": ("counter", "bytes of seek points that were fetched from a store"),
    "remote_retries": ("counter", "requests to stores that were sent again because one had failed"),
    "remote_hedges": ("counter", "duplicate requests, sent because the first was slow"),
    "remote_merged": ("counter", "records that were fetched with another one's request"),
    "remote_at_once": ("gauge", "requests that may be in flight, as the link was measured"),
    "remote_waited_s": ("counter", "seconds that requests to stores took, of all together"),
    "cache_hits": ("counter", "records that were read from the cache on disk"),
    "cache_hit_bytes": ("counter", "their bytes"),
    "cache_dropped": ("counter", "parts of the cache that failed their checksum"),
    "cache_bytes": ("gauge", "bytes of records in the cache, of all who use it"),
    "cache_planned": (
        "gauge",
        "1: evicts what is needed furthest in the future; 0: what was used longest ago",
    ),
    "cache_planned_ahead": (
        "gauge",
        "where cache_planned is 0, samples that were submitted and are not delivered yet: the "
        "cache keeps them before all others",
    ),
    "replaced": ("counter", "samples of delivered batches that another one stands for"),
    "warned": ("counter", "samples of delivered batches that drew a warning of the decoder"),
}


def nothing() -> dict[str, float]:
    """All fields of a loader whose threads have not begun."""
    return dict.fromkeys(FIELDS, 0)

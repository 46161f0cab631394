/* headrace.h: the C ABI of Headrace. This file is the contract; everything else follows it.
 *
 * Rules that hold for every function:
 *   - Returns HR_OK (0) or one of enum hr_code. Where an `error` argument is given (may be
 *     NULL), it is filled on any other value; all text is copied, nothing needs freeing.
 *   - Handles are integers. A stale or wrong handle is HR_BAD_HANDLE, never a crash.
 *   - NULL in the place of memory that is read or written is HR_ARGUMENT, before any work is done;
 *     for `need`, `result` and `progress` it says that they are not wanted.
 *   - Memory of no bytes may have any address, because some languages give empty memory one.
 *   - Configuration is JSON (UTF-8, length in bytes); unknown keys are refused by name. The case of
 *     an object's keys does not matter, except for those of transforms and labels. If a key comes
 *     twice, the last one counts.
 *   - A path may be any bytes. In the JSON of configurations and answers, a byte of a path that is
 *     no UTF-8 is the escape \udc80 to \udcff, as Python writes it (PEP 383).
 *   - Text answers go to a caller's buffer: `*need` is the size in bytes with the final NUL;
 *     HR_SHORT_BUFFER when `capacity` is less, with nothing written. With a capacity of 0 the
 *     buffer may be NULL.
 *   - All functions may be called from any thread. One loader is iterated by one thread at a time.
 *   - In a child forked after first use every function returns HR_FORKED at once.
 *   - The first call starts the engine. If the process may not have the threads or the address
 *     space for that (docs/limits.md), this call and each further one is HR_LIMIT or HR_MEMORY
 *     with what is needed and what is allowed, until there is enough.
 *   - hr_loader_open, hr_decoder_open, hr_job_wait and hr_writer_finish fill `error` on HR_OK, too.
 *     Its text is empty, or has a line for each warning: fewer threads work than should, because no
 *     more are allowed; the learned index is not kept; HEADRACE_SIMD is no instruction set of this
 *     CPU; what a shuffle of blocks costs.
 */
#ifndef HEADRACE_H
#define HEADRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_ABI_VERSION 2

/* The closed list of codes: four answers, and the errors of internal/fault/kinds.json. */
enum hr_code {
  HR_OK = 0,
  HR_END = 1,            /* hr_next: the epoch has no more batches */
  HR_TIMEOUT = 2,        /* nothing happened within timeout_ms; call again */
  HR_SHORT_BUFFER = 3,   /* capacity is less than *need */
  HR_BAD_HANDLE = 4,     /* no such object, or of another kind, or closed */
  HR_ARGUMENT = 5,       /* the caller's configuration is impossible; text names the argument */
  HR_BAD_FILE = 6,       /* an index, manifest, shard or source is not what it claims to be */
  HR_BAD_IMAGE = 7,      /* a record is no valid image of its kind */
  HR_TRUNCATED = 8,      /* a shard, file or image ends before it should */
  HR_CHECKSUM = 9,       /* stored and found CRC-32C differ */
  HR_UNSUPPORTED = 10,   /* valid, but not read by this version; text names the kind */
  HR_LIMIT = 11,         /* a limit was met; text names it and both numbers */
  HR_IO = 12,            /* the operating system refused: missing file, permission, EIO */
  HR_MEMORY = 13,        /* memory is short; text says how much was needed */
  HR_DUPLICATE_KEY = 14, /* two samples of one key */
  HR_EMPTY = 15,         /* no sample was found */
  HR_FORKED = 16,        /* this process was forked after the library was first used */
  HR_CLOSED = 17,        /* closed while waiting */
  HR_INTERNAL = 18,      /* we are wrong; please report */
  HR_CHANGED = 19,       /* an object of a store was replaced after it was opened or indexed */
  HR_DENIED = 20,        /* a store refused: credentials are missing, wrong or not enough */
  HR_UNREACHABLE = 21,   /* a store did not answer, or failed each time it was asked */
  HR_LATE = 22,          /* a store took longer than the seconds that the caller set */
  HR_NO_PIXELS = 23      /* a transform leaves an image no pixels */
};

#define HR_CODES 24 /* the largest code plus 1: the size of a table by code */

typedef struct hr_error {
  int32_t code;     /* enum hr_code */
  int32_t os_error; /* errno behind HR_IO, 0 if there is none */
  int64_t record;   /* sample number in the dataset, -1 if none is concerned */
  int64_t offset;   /* byte offset in `file`, -1 if unknown */
  char file[1024];  /* the file concerned, empty if there is none; cut at the end if it is longer */
  char text[1024];  /* one sentence for a person, with file, record, offset, expected, found; a NUL,
                     * another control character or a byte that is no UTF-8 in a name is escaped:
                     * \x00, \n, \xff */
} hr_error;

typedef int64_t hr_handle; /* never 0 */

/* HR_ABI_VERSION of the library; a caller compares it with its own before anything else. */
int32_t hr_abi_version(void);

/* Closes the handle of a dataset, loader, writer (an unfinished writer leaves nothing that opens),
 * job (it is cancelled), decoder (its unfinished works are cancelled, too) or work of a decoder
 * (hr_decoder_submit). Batches still held stay valid until hr_release; the handle of a batch is
 * HR_BAD_HANDLE here, and the batch stays held. Closing twice is HR_BAD_HANDLE. Returns within the
 * time that one image takes to decode. If a read hangs, it returns after half a second, and the
 * rest is given back when that read ends. It waits for a read of a mapped file ("backend": "mmap")
 * while memory of the program's is in use. A job or an unfinished writer removes what it had begun,
 * so closing it may take five seconds; if that is in a store that does not answer, half a second.
 * What of it could not be removed is said in error->text, beside HR_OK. */
int32_t hr_close(hr_handle handle, hr_error *error);

/* ---- datasets --------------------------------------------------------------------------- */

/* Opens a dataset: {"path": "..."} for a packed directory, an index, an image folder or containers;
 * or one of "containers", "paths", "pairs", "array", "locations" and "parts", with the keys that
 * belong to it. docs/c-abi.md lists all keys. An "array" in memory has to stay readable until the
 * dataset and all its loaders were closed; a wrong address ends the process. */
int32_t hr_dataset_open(const char *config, size_t length, hr_handle *dataset, hr_error *error);

/* The answer is JSON about the dataset: {"rows", "classes", "kind":
 * "packed"|"indexed"|"listed"|"scanned"|"contained"|"arrays"|"memory"|"concatenated",
 * "fingerprint", "fields": [{"name","type","shape"}], "shards", "bytes", "backend", ...}. A
 * concatenation also has "parts": [{"rows", "kind", "path"}...]. Containers have "source":
 * {"format", "image", "label", "columns": [{"name", "type", "samples", "use"}], "sample": names of
 * what the first sample has} and "warnings": [...]; arrays have "source". A dataset in a store of
 * objects has "fetched", so far: {"requests", "bytes", "hits": of the cache, "retries", "hedges",
 * "bytes_per_second", "waited_s"}.
 *
 * With index >= 0 it is about that sample: {"key", "label", "path", "width", "height", "channels",
 * "codec", "sampling", "process", "orientation", "crc32c", "verdict", "length", "fields": {...}},
 * with bytes fields as base64 and arrays as {"dtype","shape","data": base64}.
 *
 * With dataset 0 and index < 0 it tells another thread than the one that opens a dataset how far
 * all scans are that run in this process on containers without an index: {"containers", "of",
 * "samples"}, which are the containers read to their end, of how many, and the samples found so
 * far; 0 if no scan runs. */
int32_t hr_dataset_info(hr_handle dataset, int64_t index, char *buffer, size_t capacity,
                        size_t *need, hr_error *error);

/* Copies the encoded bytes of one sample, checksum verified, to the caller's buffer. For an image
 * of an array they are binary PPM, or PGM if it has one channel. */
int32_t hr_dataset_read(hr_handle dataset, int64_t index, uint8_t *buffer, size_t capacity,
                        size_t *need, hr_error *error);

/* ---- one image -------------------------------------------------------------------------- */

/* A transform of the program's own. In a list of transforms it is {"name": "Native", "function":
 * the address of one of these, "context": any address (0)}. It is called from a decoding thread,
 * several at once, for each image that comes to it. `pixels` are `height` rows, `stride` bytes
 * apart, of `width` pixels of four bytes: red, green, blue and one without meaning. It changes them
 * in place. `random` is drawn from the key of every augmentation, so a function of these words
 * alone gives the same for any number of threads and ranks and after any resume. It returns 0 when
 * it is done; any other number makes an error HR_BAD_IMAGE of this sample that names the number.
 *
 * It may not keep a pointer, write outside the rows, change the size, wait for anything, call this
 * library, throw or longjmp. The function and its context must stay until the loader was closed;
 * for a decoder's work until that is finished or closed. An address is the program's own and is
 * never written to a state. Using one that was read from a file is the caller's mistake, and a
 * wrong one ends the process.
 */
typedef int32_t (*hr_pixel_function)(void *context, uint8_t *pixels, int32_t height, int32_t width,
                                     size_t stride, const uint64_t random[4], uint64_t sample);

typedef struct hr_image {
  uint32_t width, height; /* of the result */
  uint64_t bytes;         /* of the result */
} hr_image;

/* Decodes encoded bytes in memory. config: {"transform": [...], "dtype", "layout", "scale", "mode",
 * "pillow", "limits", "seed", "epoch", "sample", "draw", "view", "replay", "samples"}. All keys are
 * optional; without any the result is the whole image as HWC uint8 RGB. "transform" is a list of
 * {"name", ...arguments} as internal/transform/transforms.json has them. "mode": "exact"|"fast" and
 * "pillow", the version whose pixels are wanted, are as in hr_loader_open. With a capacity of 0
 * `data` may be NULL, and only `result` is filled, from the image's header. If the capacity is less
 * than the answer and not 0, that is HR_SHORT_BUFFER: `result` is filled, and nothing is written.
 *
 * With "replay": true the answer is not pixels but JSON, [{"function", "arguments"}...]: what the
 * transforms do to this image, with what they draw for that seed, epoch, sample, draw and view.
 * result->bytes is its length. With "samples": n, at most 2^20, it is a list of n such lists, for
 * that sample and those after it.
 *
 * With "label", {"name", ...arguments} as that file's "labels" have them, and "size": [height,
 * width], `bytes` are no image but a label of an image of that size: a mask, one byte a pixel, or
 * boxes or points as float32. The answer is what the transforms make of it. For a mask it has the
 * result's width and height. Otherwise it is the int64 numbers of the rows that are left,
 * result->width of them, and then those rows as float32.
 *
 * With "displacement": true, one transform, which is an Elastic, and "size", `bytes` are not read.
 * The answer is how far it moves each pixel of an image of that size: float32, two a pixel, across
 * and down. */
int32_t hr_decode(const uint8_t *bytes, size_t length, const char *config, size_t config_length,
                  void *data, size_t capacity, hr_image *result, hr_error *error);

/* ---- many images ------------------------------------------------------------------------ */

/* The bits of hr_task.flags. */
enum hr_task_flag {
  HR_TASK_DESCRIPTOR = 1, /* `descriptor` is an open file. It is read from its first byte in the
                           * place of `path`, and its position stays as it is */
  HR_TASK_SAME_IMAGE = 2, /* the image of the task before, which is read once: members that say
                           * where an image is are ignored. Tasks of one image whose keys differ
                           * only in `view`, which counts up, are decoded together if that is
                           * faster */
  HR_TASK_CHECKED = 4     /* a file that is not the one of device, inode, size and mtime_ns, or that
                           * is written to while it is read, is HR_BAD_FILE, with what was expected
                           * and found */
};

/* One image to make: of any bytes or file, by any transforms, to any place. */
typedef struct hr_task {
  const uint8_t *bytes; /* encoded, in memory; NULL: a file is read */
  size_t length;        /* of `bytes` */
  const char *path;   /* of the file, which is opened when its turn comes; for bytes only a name for
                         errors; may be NULL */
  size_t path_length; /* without a NUL */
  const char *config; /* see hr_decoder_submit; may be NULL */
  size_t config_length;
  void *data;      /* where the result goes */
  size_t capacity; /* of `data`; 0: only the result's size is found, from the header */
  uint64_t seed, epoch, sample, draw; /* with `view` the key of every draw, as in hr_decode */
  uint64_t device, inode;             /* st_dev and st_ino of the file, */
  int64_t size, mtime_ns;             /* st_size, and st_mtim in nanoseconds */
  uint32_t view;
  uint32_t flags; /* of enum hr_task_flag */
  int32_t descriptor;
  uint32_t reserved; /* 0 */
} hr_task;

/* Starts threads that decode. config: {"num_threads" (0: automatic), "read_delay_ms" (for tests:
 * every read waits this long)}. */
int32_t hr_decoder_open(const char *config, size_t length, hr_handle *decoder, hr_error *error);

/* Hands over `count` tasks and returns at once; *work stands for them until hr_close. All threads
 * do the works in the order in which they were submitted, and the tasks of a work in their order. A
 * task's "config" is that of hr_decode without the key: {"transform", "dtype", "layout", "scale",
 * "mode", "pillow", "limits"}, and its pixels are those of hr_decode. Tasks may share a text: it is
 * read once.
 *
 * Tasks, paths and configurations are copied before this returns. `bytes` and `data` belong to the
 * work until hr_decoder_wait was HR_OK or hr_close has returned; a descriptor must stay open for as
 * long. A task without an image, or with NULL for memory that is not empty, is HR_ARGUMENT that
 * gives the task's number, and no task is begun. At most 4,096 works and 1,048,576 tasks may wait
 * unfinished: one more is HR_LIMIT.
 *
 * hr_close of a work cancels what has not begun. It waits for what is being decoded, which is at
 * most one image of each thread, but not for a file that hangs. When it has returned, `data` is not
 * written and `bytes` are not read any more. */
int32_t hr_decoder_submit(hr_handle decoder, const hr_task *tasks, size_t count, hr_handle *work,
                          hr_error *error);

/* Waits at most timeout_ms (0: only looks). HR_OK: all tasks are finished, and *failed (may be
 * NULL) of them have an error. HR_CLOSED: the work or its decoder was closed before. */
int32_t hr_decoder_wait(hr_handle work, int64_t timeout_ms, uint64_t *failed, hr_error *error);

/* Says what became of task `index`: HR_OK, or the task's own error, with the file's name if it has
 * one. *result (may be NULL) gets the size as soon as it is known, else 0. With a capacity that is
 * too small, which is HR_ARGUMENT, it is the size that is needed. HR_TIMEOUT: not finished yet.
 * What an error leaves in `data` has no meaning. */
int32_t hr_decoder_result(hr_handle work, uint64_t index, hr_image *result, hr_error *error);

/* ---- loaders ---------------------------------------------------------------------------- */

/* Opens a loader of a dataset. The dataset's handle may be closed afterwards, because the loader
 * keeps what it needs. config: {"batch_size", "shuffle", "seed", "transform", ...}; docs/c-abi.md
 * lists all keys. Work begins at once, so that the first batch is under way before the first
 * hr_next. */
int32_t hr_loader_open(hr_handle dataset, const char *config, size_t length, hr_handle *loader,
                       hr_error *error);

/* Says where the next hr_next goes on: behind the first `position` samples of `epoch`, counted over
 * all ranks. The batches from there on are those of an epoch that begins at that position, so the
 * samples before may have been taken with another batch size or world size. With "order":
 * "submitted" `position` is the number of the next batch. What was prefetched for another position
 * is dropped; for the position already under way it is kept. */
int32_t hr_seek(hr_handle loader, int64_t epoch, int64_t position, hr_error *error);

/* Appends a batch to a loader of "order": "submitted": the samples `indices` of the dataset, in
 * this order. hr_next delivers it behind the batches submitted before. `draws` (NULL: all 0) are
 * the samples' draw numbers. They are in the key of every augmentation, so a sample that comes
 * twice in an epoch is augmented differently if they differ. `length` is the number of samples. A
 * batch longer than "batch_size" gets memory made for it; 0 with indices that are not NULL is an
 * empty batch. Both arrays are copied. An index outside the dataset is HR_ARGUMENT that names it,
 * and nothing is appended.
 *
 * NULL, NULL, 0 ends the epoch: hr_next gives HR_END there, once, and what is submitted next
 * belongs to the next epoch. hr_seek(epoch, number) drops all that was submitted; the next batch
 * has that number in that epoch. At most 4,096 batches, and 16,777,216 samples unless in one batch,
 * may wait undelivered: one more is HR_LIMIT. While nothing waits, hr_next runs into its
 * timeout. */
int32_t hr_submit(hr_handle loader, const int64_t *indices, const uint64_t *draws, size_t length,
                  hr_error *error);

/* One field of a batch, row-major; strides in bytes. dtype: DLPack's (code, bits). */
#define HR_MAX_DIMENSIONS 5
typedef struct hr_field {
  char name[32]; /* "images", or for several views "images.0", "images.1"...; "labels", "indices";
                    and for a mixed batch those that follow them */
  void *data;
  uint64_t bytes;
  int64_t shape[HR_MAX_DIMENSIONS];
  int64_t strides[HR_MAX_DIMENSIONS];
  int32_t ndim;
  uint8_t dtype_code; /* kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4 */
  uint8_t dtype_bits;
  uint16_t reserved;
} hr_field;

#define HR_MAX_FIELDS 40
typedef struct hr_batch {
  hr_handle batch;     /* for hr_release */
  int64_t epoch, step; /* the step of its place: position / (batch_size * world_size) */
  int64_t length;      /* samples */
  int64_t tag;         /* tag of the lent memory that it is in, -1 for the ring's own */
  int32_t replaced;    /* samples that a substitute replaced (on_error) */
  int32_t field_count;
  int64_t form; /* batches of one form and length have fields of the same kind, shape and place */
  hr_field fields[HR_MAX_FIELDS]; /* in one piece of memory, images first, then labels, indices */
} hr_batch;
/* With MixUp, CutMix or Mixup at the end of "transform", these fields follow for each sample:
 * "partners", the index of the sample that it was mixed with; "partner_labels"; "lambdas"
 * (float64), its own share; "boxes" (int32, shape length x 4), the top, left, height and width of
 * what CutMix took from the partner, all 0 if it took nothing; and, if labels are "soft", "targets"
 * (float32, shape length x num_classes).
 *
 * With "labels", these fields follow for label N, from 0 on. A mask has "mask.N" (uint8, shape
 * length x height x width). Boxes and points have "places.N" (float32, shape length x rows x 4 or
 * 2), where rows is the most that a sample has; "count.N", how many of them each sample has left;
 * and "kept.N" (int64, shape length x rows), which rows of the field those were. What is behind
 * them is 0. A further image has "image.N", in the layout of the images and `scale` times as high
 * and wide. */

/* Waits at most timeout_ms for the next batch in order (0: only looks). HR_OK: the caller holds
 * *batch, and it is never written again until hr_release. A child that is forked meanwhile has a
 * copy of its memory, whichever of the two writes; of lent memory it has what its owner's mapping
 * gives it. HR_END: the epoch is over; the call after that goes on with the next epoch. Any other
 * code: the epoch stands still at this batch, and the same error comes again until hr_seek. */
int32_t hr_next(hr_handle loader, int64_t timeout_ms, hr_batch *batch, hr_error *error);

/* Gives the memory of a batch back. Valid also after hr_close of the loader. */
int32_t hr_release(hr_handle batch, hr_error *error);

/* Lends `bytes` of memory for one batch (at least the "slot_bytes" of hr_loader_info, aligned to
 * 64). From then on only the engine writes there, until the batch with this tag was released or the
 * loader closed. While memory is lent, batches are written there first. */
int32_t hr_lend(hr_handle loader, void *memory, uint64_t bytes, int64_t tag, hr_error *error);

/* Writes to a file what the threads of a loader or a decoder do from now on, until NULL, 0 ends it
 * or the object is closed. The format is the Trace Event Format's JSON array, which Chrome and
 * Perfetto read (docs/doctor.md). `path` has no NUL at its end. If this process wrote a trace there
 * before, or another process does now, a number is put into the name; "trace" of hr_loader_info is
 * the name that is used. The call that ends the trace returns the first error that writing has met.
 * In the trace of a decoder a work is a batch, numbered from 0 in epoch 0. */
int32_t hr_trace(hr_handle loader, const char *path, size_t length, hr_error *error);

/* What a call of hr_span notes. */
enum {
  HR_SPAN_NEXT = 0, /* the whole call that hands out a batch */
  HR_SPAN_WAIT = 1, /* waiting for a batch */
  HR_SPAN_COPY = 2  /* copying to a device, or into pinned memory */
};

/* Notes in the trace what the calling thread did with a batch, between two times of
 * CLOCK_MONOTONIC in nanoseconds. Without a trace nothing happens. */
int32_t hr_span(hr_handle loader, int32_t kind, int64_t epoch, int64_t step, int64_t begin_ns,
                int64_t end_ns, hr_error *error);

/* JSON: {"steps": batches an epoch (-1 if they are submitted), "length": its samples, "slot_bytes",
 * "prefetch", "threads", "trace" (its file, while there is one), "fields": [{"name", "shape": of
 * one sample at first}...], "stats": {...}, "report":
 * [{"epoch","step","index","key","substitute","error"}...], "state": {...}}. A decoder has
 * "threads", "trace" and "stats"; what was handed out only its caller knows. */
int32_t hr_loader_info(hr_handle loader, char *buffer, size_t capacity, size_t *need,
                       hr_error *error);

/* A file descriptor that polls readable while a batch (or an error) is ready for hr_next.
 * Owned by the loader; closed with it. */
int32_t hr_loader_event(hr_handle loader, int32_t *descriptor, hr_error *error);

/* ---- making datasets -------------------------------------------------------------------- */

/* Starts long work on all cores and returns at once. config: {"job": "pack"|"index"|"verify",
 * "source", "destination", "storage", "timeout" (seconds that a store may take for what is waited
 * for at once, 0: as many as it takes; then HR_LATE), ...}; docs/format.md and internal/pack list
 * the keys of each. Another job is one that may wait for a store: {"job": "fields", "dataset": its
 * handle, "indices": [...], "fields": [names]}. Its summary is {"rows": [{"key", "path", "fields":
 * {name: value}}...]}, with values in the forms of hr_dataset_info. It reads only those fields, and
 * 48 at a time from a store. */
int32_t hr_job_start(const char *config, size_t length, hr_handle *job, hr_error *error);

typedef struct hr_progress {
  int64_t done, total; /* samples; total -1 while unknown */
  int64_t bytes;       /* encoded bytes handled */
  int64_t faults;      /* samples or places found faulty so far */
} hr_progress;

/* Waits at most timeout_ms. HR_OK: finished; HR_TIMEOUT: still at work, *progress is current; any
 * other code: failed, nothing half-made is left. */
int32_t hr_job_wait(hr_handle job, int64_t timeout_ms, hr_progress *progress, hr_error *error);

/* JSON summary of a finished job. */
int32_t hr_job_result(hr_handle job, char *buffer, size_t capacity, size_t *need, hr_error *error);

/* Opens a writer, which writes a dataset sample by sample. config: {"destination", "shard_bytes",
 * "classes", "fields": [{"name","type": "int"|"float"|"str"|"bytes"|"array"}] (optional: taken from
 * the first sample), "storage", "timeout": as of a job}. */
int32_t hr_writer_open(const char *config, size_t length, hr_handle *writer, hr_error *error);

/* Adds a sample. fields: JSON {"label": 3, "key": "...", "caption": "...", ...} in the forms of
 * hr_dataset_info; bytes fields as {"bytes": base64} unless declared, floats that JSON lacks as
 * {"float": "nan"}. A label is 0 or more, and no field may be called image, label, key, index or
 * path. A sample that is refused leaves the writer as it was. Waits, without a timeout, while the
 * disk and the threads that look at images are behind. */
int32_t hr_writer_add(hr_handle writer, const uint8_t *image, size_t image_length,
                      const char *fields, size_t fields_length, hr_error *error);

/* Makes the whole dataset visible. The writer takes no more samples, whatever this returns. After
 * HR_OK its handle stands for a finished job, so hr_job_result has the summary that packing gives,
 * and the caller must hr_close it. Waits, without a timeout, until all of it is on disk. */
int32_t hr_writer_finish(hr_handle writer, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif

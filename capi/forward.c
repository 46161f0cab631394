/* forward.c: the functions of headrace.h. Each is a guard and a call into Go.
 *
 * In a child that is forked from a process whose Go runtime has started, only one thread of that
 * runtime is left: there is no scheduler and no garbage collector, and locks are in whatever state
 * they were (golang/go#15538). Any entry into Go hangs or crashes there, so the guard has to be C
 * and has to come first.
 *
 * Go's runtime does not report either that it gets no thread or no address space: it ends the
 * process. The first call starts the runtime, and only if it has what it needs
 * (internal/headroom). */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "_cgo_export.h"
#include "headrace.h"

static atomic_int forked;

static void mark_forked(void) { atomic_store_explicit(&forked, 1, memory_order_relaxed); }

/* Runs when the library is loaded, as Go's own runtime does. From then on a fork is fatal to Go.
 * Children made with posix_spawn or vfork run no handler and need none, because they exec at
 * once. */
__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, mark_forked);
}

static int32_t refuse(hr_error *error, int32_t code, const char *format, ...) {
  if (error != NULL) {
    memset(error, 0, sizeof *error);
    error->code = code;
    error->record = -1;
    error->offset = -1;
    va_list values;
    va_start(values, format);
    vsnprintf(error->text, sizeof error->text, format, values);
    va_end(values);
  }
  return code;
}

/* These are declared in internal/headroom/headroom.h, whose changes cgo would not see from here. */
extern int32_t hrh_start(char *text, size_t capacity);
extern bool hrh_spent(char *text, size_t capacity);

static int32_t enter(hr_error *error) {
  char text[512];
  if (atomic_load_explicit(&forked, memory_order_relaxed)) {
    return refuse(error, HR_FORKED,
                  "this process was forked after Headrace was first used, and the engine's "
                  "threads did not come along; start workers with 'spawn' or 'forkserver', or "
                  "use Headrace first in the child");
  }
  switch (hrh_start(text, sizeof text)) {
    case 0:
      return HR_OK;
    case 1:
      return refuse(error, HR_LIMIT, "%s", text);
    default:
      return refuse(error, HR_MEMORY, "%s", text);
  }
}

#define ENTER(error)                      \
  do {                                    \
    int32_t refused = enter(error);       \
    if (refused != HR_OK) return refused; \
  } while (0)

/* Comes before a call that makes something. It refuses if Go has used some of the address space
 * that is held for it, without which Go would end the process. */
#define REFUSE_SPENT(error)                                                                    \
  do {                                                                                         \
    char short_of[512];                                                                        \
    if (hrh_spent(short_of, sizeof short_of)) return refuse(error, HR_MEMORY, "%s", short_of); \
  } while (0)

/* Checks the caller's memory before any work is done for it. A handle that cannot be returned, or a
 * batch that cannot be described, would be lost with its threads and slots. */
#define REFUSE_MISSING(pointer, bytes, error)                                                \
  do {                                                                                       \
    const size_t size = (bytes);                                                             \
    if ((pointer) == NULL && size > 0) {                                                     \
      return refuse(error, HR_ARGUMENT, #pointer " is NULL (expected %zu bytes)", size);     \
    }                                                                                        \
    if (size > PTRDIFF_MAX) {                                                                \
      return refuse(error, HR_ARGUMENT, #bytes " is %zu (expected a size of memory)", size); \
    }                                                                                        \
  } while (0)

/* The address of no bytes may be any number: Rust's empty slices have 1 or 8. Go takes a pointer
 * below 4,096 that it meets on a goroutine's stack for a broken one, and ends the process
 * (runtime/stack.go, adjustpointers). So Go gets another address. */
static uint64_t nothing;

static void *shown(const void *memory, size_t bytes) {
  /* cgo's prototypes have no const. What is const here is never written. */
  return memory != NULL && bytes == 0 ? (void *)&nothing : (void *)memory;
}

int32_t hr_abi_version(void) { return HR_ABI_VERSION; }

int32_t hr_close(hr_handle handle, hr_error *error) {
  ENTER(error);
  return goClose(handle, error);
}

int32_t hr_dataset_open(const char *config, size_t length, hr_handle *dataset, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(config, length, error);
  REFUSE_MISSING(dataset, sizeof *dataset, error);
  return goDatasetOpen(shown(config, length), length, dataset, error);
}

int32_t hr_dataset_info(hr_handle dataset, int64_t index, char *buffer, size_t capacity,
                        size_t *need, hr_error *error) {
  ENTER(error);
  REFUSE_MISSING(buffer, capacity, error);
  return goDatasetInfo(dataset, index, shown(buffer, capacity), capacity, need, error);
}

int32_t hr_dataset_read(hr_handle dataset, int64_t index, uint8_t *buffer, size_t capacity,
                        size_t *need, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(buffer, capacity, error);
  return goDatasetRead(dataset, index, shown(buffer, capacity), capacity, need, error);
}

int32_t hr_decode(const uint8_t *bytes, size_t length, const char *config, size_t config_length,
                  void *data, size_t capacity, hr_image *result, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(bytes, length, error);
  REFUSE_MISSING(config, config_length, error);
  REFUSE_MISSING(data, capacity, error);
  return goDecode(shown(bytes, length), length, shown(config, config_length), config_length,
                  shown(data, capacity), capacity, result, error);
}

int32_t hr_decoder_open(const char *config, size_t length, hr_handle *decoder, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(config, length, error);
  REFUSE_MISSING(decoder, sizeof *decoder, error);
  return goDecoderOpen(shown(config, length), length, decoder, error);
}

int32_t hr_decoder_submit(hr_handle decoder, const hr_task *tasks, size_t count, hr_handle *work,
                          hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  if (count > PTRDIFF_MAX / sizeof *tasks) {
    return refuse(error, HR_ARGUMENT, "count is %zu (expected a number of tasks)", count);
  }
  REFUSE_MISSING(tasks, count * sizeof *tasks, error);
  REFUSE_MISSING(work, sizeof *work, error);
  return goDecoderSubmit(decoder, shown(tasks, count), count, work, error);
}

int32_t hr_decoder_wait(hr_handle work, int64_t timeout_ms, uint64_t *failed, hr_error *error) {
  ENTER(error);
  return goDecoderWait(work, timeout_ms, failed, error);
}

int32_t hr_decoder_result(hr_handle work, uint64_t index, hr_image *result, hr_error *error) {
  ENTER(error);
  return goDecoderResult(work, index, result, error);
}

int32_t hr_loader_open(hr_handle dataset, const char *config, size_t length, hr_handle *loader,
                       hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(config, length, error);
  REFUSE_MISSING(loader, sizeof *loader, error);
  return goLoaderOpen(dataset, shown(config, length), length, loader, error);
}

int32_t hr_seek(hr_handle loader, int64_t epoch, int64_t position, hr_error *error) {
  ENTER(error);
  return goSeek(loader, epoch, position, error);
}

int32_t hr_submit(hr_handle loader, const int64_t *indices, const uint64_t *draws, size_t length,
                  hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  return goSubmit(loader, shown(indices, length), shown(draws, length), length, error);
}

int32_t hr_next(hr_handle loader, int64_t timeout_ms, hr_batch *batch, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(batch, sizeof *batch, error);
  return goNext(loader, timeout_ms, batch, error);
}

int32_t hr_release(hr_handle batch, hr_error *error) {
  ENTER(error);
  return goRelease(batch, error);
}

int32_t hr_lend(hr_handle loader, void *memory, uint64_t bytes, int64_t tag, hr_error *error) {
  ENTER(error);
  REFUSE_MISSING(memory, bytes, error);
  return goLend(loader, shown(memory, bytes), bytes, tag, error);
}

int32_t hr_loader_info(hr_handle loader, char *buffer, size_t capacity, size_t *need,
                       hr_error *error) {
  ENTER(error);
  REFUSE_MISSING(buffer, capacity, error);
  return goLoaderInfo(loader, shown(buffer, capacity), capacity, need, error);
}

int32_t hr_loader_event(hr_handle loader, int32_t *descriptor, hr_error *error) {
  ENTER(error);
  REFUSE_MISSING(descriptor, sizeof *descriptor, error);
  return goLoaderEvent(loader, descriptor, error);
}

int32_t hr_trace(hr_handle loader, const char *path, size_t length, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(path, length, error);
  return goTrace(loader, shown(path, length), length, error);
}

int32_t hr_span(hr_handle loader, int32_t kind, int64_t epoch, int64_t step, int64_t begin_ns,
                int64_t end_ns, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  return goSpan(loader, kind, epoch, step, begin_ns, end_ns, error);
}

int32_t hr_job_start(const char *config, size_t length, hr_handle *job, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(config, length, error);
  REFUSE_MISSING(job, sizeof *job, error);
  return goJobStart(shown(config, length), length, job, error);
}

int32_t hr_job_wait(hr_handle job, int64_t timeout_ms, hr_progress *progress, hr_error *error) {
  ENTER(error);
  return goJobWait(job, timeout_ms, progress, error);
}

int32_t hr_job_result(hr_handle job, char *buffer, size_t capacity, size_t *need, hr_error *error) {
  ENTER(error);
  REFUSE_MISSING(buffer, capacity, error);
  return goJobResult(job, shown(buffer, capacity), capacity, need, error);
}

int32_t hr_writer_open(const char *config, size_t length, hr_handle *writer, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(config, length, error);
  REFUSE_MISSING(writer, sizeof *writer, error);
  return goWriterOpen(shown(config, length), length, writer, error);
}

int32_t hr_writer_add(hr_handle writer, const uint8_t *image, size_t image_length,
                      const char *fields, size_t fields_length, hr_error *error) {
  ENTER(error);
  REFUSE_SPENT(error);
  REFUSE_MISSING(image, image_length, error);
  REFUSE_MISSING(fields, fields_length, error);
  return goWriterAdd(writer, shown(image, image_length), image_length, shown(fields, fields_length),
                     fields_length, error);
}

int32_t hr_writer_finish(hr_handle writer, hr_error *error) {
  ENTER(error);
  return goWriterFinish(writer, error);
}

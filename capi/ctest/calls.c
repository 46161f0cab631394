/* calls.c: calls the C ABI in any order, from several threads, with right and wrong arguments.
 *
 *   calls [-n CALLS] [-t SECONDS] [-s SEED] [-j THREADS] LIBRARY DIRECTORY
 *
 * LIBRARY is libheadrace.so, built with -asan if this program is. DIRECTORY is empty and becomes
 * the working directory. Besides "no report", this must hold: every answer is in the closed list,
 * an error has its text on one line, no answer is HR_INTERNAL, memory behind a short buffer is not
 * written, a batch that is held does not change, and when all handles are closed no descriptor is
 * left. The calls only keep to what the contract asks of a caller: one thread iterates a loader,
 * memory is as long as is said, and nobody reads a batch that was released.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../native/ctest/grammar.h"
#include "../headrace.h"
#include "configurations.h"

/* ---- the library ---- */

static struct {
  __typeof__(hr_abi_version) *abi_version;
  __typeof__(hr_close) *close;
  __typeof__(hr_dataset_open) *dataset_open;
  __typeof__(hr_dataset_info) *dataset_info;
  __typeof__(hr_dataset_read) *dataset_read;
  __typeof__(hr_decode) *decode;
  __typeof__(hr_decoder_open) *decoder_open;
  __typeof__(hr_decoder_submit) *decoder_submit;
  __typeof__(hr_decoder_wait) *decoder_wait;
  __typeof__(hr_decoder_result) *decoder_result;
  __typeof__(hr_loader_open) *loader_open;
  __typeof__(hr_seek) *seek;
  __typeof__(hr_submit) *submit;
  __typeof__(hr_next) *next;
  __typeof__(hr_release) *release;
  __typeof__(hr_lend) *lend;
  __typeof__(hr_loader_info) *loader_info;
  __typeof__(hr_loader_event) *loader_event;
  __typeof__(hr_trace) *trace;
  __typeof__(hr_span) *span;
  __typeof__(hr_job_start) *job_start;
  __typeof__(hr_job_wait) *job_wait;
  __typeof__(hr_job_result) *job_result;
  __typeof__(hr_writer_open) *writer_open;
  __typeof__(hr_writer_add) *writer_add;
  __typeof__(hr_writer_finish) *writer_finish;
} hr;

static void load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  static const char *const names[] = {
      "hr_abi_version",  "hr_close",          "hr_dataset_open", "hr_dataset_info",
      "hr_dataset_read", "hr_decode",         "hr_decoder_open", "hr_decoder_submit",
      "hr_decoder_wait", "hr_decoder_result", "hr_loader_open",  "hr_seek",
      "hr_submit",       "hr_next",           "hr_release",      "hr_lend",
      "hr_loader_info",  "hr_loader_event",   "hr_trace",        "hr_span",
      "hr_job_start",    "hr_job_wait",       "hr_job_result",   "hr_writer_open",
      "hr_writer_add",   "hr_writer_finish"};
  _Static_assert(sizeof hr == sizeof names, "one name a function");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    void *function = dlsym(library, names[i]);
    if (function == NULL) abort();
    memcpy((char *)&hr + i * sizeof function, &function, sizeof function);
  }
}

/* ---- what threads share ---- */

enum { LOCKS = 64 };
enum kind { DATASET, LOADER, WRITER, JOB, DECODER, KINDS };
enum { HANDLES = 5 }; /* of each kind */

static _Atomic hr_handle shared[KINDS][HANDLES]; /* open or closed by now; 0 at first */
static pthread_mutex_t iterating[LOCKS]; /* of the loaders whose handle has that remainder */
static atomic_uint_fast64_t answered[HR_CODES], places;

/* Lent memory stays until the end, because this program does not follow whether it came back. */
typedef struct loan {
  struct loan *next;
  void *memory;
} loan;
static loan *loans;
static pthread_mutex_t lending = PTHREAD_MUTEX_INITIALIZER;

/* A batch that one thread holds. */
typedef struct held {
  hr_batch batch;
  uint64_t sum;
} held;

enum { HELD = 4 };
typedef struct caller {
  random_state r;
  uint64_t seed, number; /* of the call in progress */
  hr_error error;
  held held[HELD];
  hr_handle released; /* one that this thread gave back */
} caller;

static uint64_t below(caller *c, uint64_t bound) { return random_below(&c->r, bound); }
static bool one_in(caller *c, uint64_t n) { return below(c, n) == n - 1; }

static void fail(const caller *c, const char *function, const char *what) {
  fprintf(stderr, "-s %llu, call %llu: %s: %s: code %d, %s\n", (unsigned long long)c->seed,
          (unsigned long long)c->number, function, what, c->error.code, c->error.text);
  abort();
}

/* Checks what must hold for the answer of any function. */
static int32_t answer(caller *c, const char *function, int32_t code) {
  const hr_error *e = &c->error;
  if (code < HR_OK || code >= HR_CODES || code == HR_FORKED) fail(c, function, "no code");
  if (code == HR_INTERNAL) fail(c, function, "internal");
  atomic_fetch_add(&answered[code], 1);
  if (code == HR_OK || code == HR_END || code == HR_TIMEOUT) return code;
  if (e->code != code || memchr(e->text, 0, sizeof e->text) == NULL || e->text[0] == 0 ||
      memchr(e->file, 0, sizeof e->file) == NULL) {
    fail(c, function, "no error");
  }
  for (const char *p = e->text; *p != 0; p++) {
    if ((unsigned char)*p < ' ' || *p == 127) fail(c, function, "a control character");
  }
  return code;
}

#define CALL(name, ...) answer(c, #name, hr.name(__VA_ARGS__, error_of(c)))

/* Now and then it is NULL. An error of the call before must not stay in it. */
static hr_error *error_of(caller *c) {
  memset(&c->error, 0, sizeof c->error);
  return &c->error;
}

static hr_handle some_handle(caller *c, enum kind kind) {
  if (one_in(c, 60)) return (hr_handle)random_next(&c->r);
  if (one_in(c, 60)) return (hr_handle)below(c, 3) - 1;
  if (one_in(c, 40)) return c->released;
  if (one_in(c, 12)) kind = (enum kind)below(c, KINDS);
  hr_handle handle = 0;
  for (int i = 0; handle == 0 && i < 8; i++) {
    handle = atomic_load(&shared[kind][below(c, HANDLES)]);
  }
  return one_in(c, 60) ? handle + 1 : handle;
}

/* The handle that was in that place is closed. */
static void share(caller *c, enum kind kind, hr_handle handle) {
  const hr_handle old = atomic_exchange(&shared[kind][below(c, HANDLES)], handle);
  if (old != 0) CALL(close, old);
}

/* ---- calls ---- */

static image_bytes some_image(random_state *r) {
  switch (random_below(r, 4)) {
    case 0:
      return random_jpeg(r);
    case 1:
      return random_png(r);
    default:
      return made_image(r);
  }
}

/* Memory of exactly the capacity, so that a byte too many is seen. It is filled, so that a write
 * too early is seen. */
static char *some_buffer(caller *c, size_t *capacity) {
  *capacity = one_in(c, 3) ? below(c, 60) : 1u << 16;
  char *buffer = malloc(*capacity + (*capacity == 0));
  if (buffer == NULL) abort();
  memset(buffer, 0x5A, *capacity);
  return buffer;
}

static void check_buffer(caller *c, const char *function, int32_t code, const char *buffer,
                         size_t capacity, size_t need, bool is_text) {
  if (code == HR_SHORT_BUFFER) {
    for (size_t i = 0; i < capacity; i++) {
      if (buffer[i] != 0x5A) fail(c, function, "a short buffer is written");
    }
    if (need <= capacity) fail(c, function, "a short buffer would have done");
  }
  if (code == HR_OK && (need > capacity || (is_text && strlen(buffer) + 1 != need))) {
    fail(c, function, "another size than was said");
  }
}

static void open_dataset(caller *c) {
  const text config = dataset_configuration(&c->r);
  hr_handle handle = 0;
  if (CALL(dataset_open, config.bytes, config.length, &handle) == HR_OK) share(c, DATASET, handle);
}

static void ask_dataset(caller *c) {
  size_t capacity, need = 0;
  char *buffer = some_buffer(c, &capacity);
  const int64_t index = one_in(c, 20) ? (int64_t)random_next(&c->r) : (int64_t)below(c, 30) - 1;
  const hr_handle handle = some_handle(c, DATASET);
  if (one_in(c, 2)) {
    const int32_t code = CALL(dataset_info, handle, index, buffer, capacity, &need);
    check_buffer(c, "hr_dataset_info", code, buffer, capacity, need, true);
  } else {
    const int32_t code = CALL(dataset_read, handle, index, (uint8_t *)buffer, capacity, &need);
    check_buffer(c, "hr_dataset_read", code, buffer, capacity, need, false);
  }
  free(buffer);
}

static void decode(caller *c) {
  image_bytes file = some_image(&c->r);
  const text config = decode_configuration(&c->r);
  hr_image result = {0};
  if (CALL(decode, file.bytes, file.length, config.bytes, config.length, NULL, 0, &result) ==
          HR_OK &&
      result.bytes < 1 << 24) {
    uint64_t capacity = result.bytes;
    if (one_in(c, 8)) capacity = below(c, capacity + 2);
    uint8_t *data = malloc(capacity + (capacity == 0));
    if (data == NULL) abort();
    const uint64_t bytes = result.bytes;
    const int32_t code =
        CALL(decode, file.bytes, file.length, config.bytes, config.length, data, capacity, &result);
    if (code == HR_OK && result.bytes != bytes) fail(c, "hr_decode", "another size");
    free(data);
  }
  free(file.bytes);
}

static void open_decoder(caller *c) {
  static const char *const more[] = {"\"read_delay_ms\": &", "\"num_threads\": #"};
  const text config = configuration(&c->r, "\"num_threads\": 2", more, COUNT(more), true);
  hr_handle handle = 0;
  if (CALL(decoder_open, config.bytes, config.length, &handle) == HR_OK) share(c, DECODER, handle);
}

/* A task of bytes, of a file or of the image before. The descriptors are whatever is open, or
 * not. */
static hr_task some_task(caller *c, const image_bytes *file, const text *config) {
  static const char *const paths[] = {"folder/a/0", "folder/b/1", "folder/b/9.jpg", "folder", "no"};
  hr_task t = {.config = config->bytes, .config_length = config->length, .sample = below(c, 9)};
  if (one_in(c, 3)) {
    t.path = paths[below(c, COUNT(paths))];
    t.path_length = strlen(t.path);
  } else {
    t.bytes = file->bytes;
    t.length = file->length;
  }
  if (one_in(c, 4)) t.flags = (uint32_t)below(c, one_in(c, 9) ? 16 : 8);
  t.descriptor = (int32_t)below(c, 12) - 1;
  t.view = (uint32_t)below(c, 3);
  t.capacity = one_in(c, 4) ? 0 : below(c, 1 << 15);
  return t;
}

/* The work belongs to this thread, because its memory does. Another thread may close the
 * decoder. */
static void decode_many(caller *c) {
  enum { TASKS = 12 };
  hr_task tasks[TASKS];
  image_bytes files[TASKS];
  uint8_t *rooms[TASKS];
  const size_t count = below(c, TASKS + 1);
  text *configs = malloc(2 * sizeof *configs);
  if (configs == NULL) abort();
  for (int k = 0; k < 2; k++) configs[k] = task_configuration(&c->r);
  for (size_t i = 0; i < count; i++) {
    files[i] = some_image(&c->r);
    tasks[i] = some_task(c, &files[i], &configs[below(c, 2)]);
    rooms[i] = malloc(tasks[i].capacity + 1);
    if (rooms[i] == NULL) abort();
    tasks[i].data = one_in(c, 200) ? NULL : rooms[i];
  }
  hr_handle work = 0;
  const int32_t code = CALL(decoder_submit, some_handle(c, DECODER), tasks, count, &work);
  memset(tasks, 0x5A, sizeof tasks); /* copied, as texts are */
  free(configs);
  if (code == HR_OK) {
    uint64_t failed = 0;
    hr_image image;
    if (!one_in(c, 3)) CALL(decoder_wait, work, (int64_t)below(c, 100) - 1, &failed);
    if (failed > count) fail(c, "hr_decoder_wait", "more have failed than there are");
    for (uint64_t n = below(c, 4); n > 0; n--) {
      CALL(decoder_result, work, below(c, count + 2), one_in(c, 3) ? NULL : &image);
    }
    if (CALL(close, work) != HR_OK) fail(c, "hr_close", "a work");
    if (CALL(decoder_wait, work, 0, NULL) != HR_BAD_HANDLE) fail(c, "hr_close", "still there");
  }
  /* From here on nobody may look at it or write to it. */
  for (size_t i = 0; i < count; i++) {
    free(files[i].bytes);
    free(rooms[i]);
  }
}

static void open_loader(caller *c) {
  const text config = loader_configuration(&c->r);
  hr_handle handle = 0;
  if (CALL(loader_open, some_handle(c, DATASET), config.bytes, config.length, &handle) == HR_OK) {
    share(c, LOADER, handle);
  }
}

static uint64_t sum_of(const hr_batch *batch) {
  uint64_t sum = 14695981039346656037u;
  for (int i = 0; i < batch->field_count; i++) {
    const uint8_t *data = batch->fields[i].data;
    for (uint64_t k = 0; k < batch->fields[i].bytes; k += 1 + batch->fields[i].bytes / 65536) {
      sum = (sum ^ data[k]) * 1099511628211u;
    }
  }
  return sum;
}

static void release(caller *c, held *h) {
  if (h->batch.batch == 0) return;
  if (sum_of(&h->batch) != h->sum) fail(c, "hr_release", "a held batch has changed");
  c->released = h->batch.batch;
  if (CALL(release, h->batch.batch) != HR_OK) fail(c, "hr_release", "a held batch");
  if (CALL(release, h->batch.batch) != HR_BAD_HANDLE) fail(c, "hr_release", "twice");
  h->batch.batch = 0;
}

static void next(caller *c) {
  const hr_handle handle = some_handle(c, LOADER);
  held *h = &c->held[below(c, HELD)];
  release(c, h);
  pthread_mutex_t *lock = &iterating[(uint64_t)handle % LOCKS];
  pthread_mutex_lock(lock);
  if (one_in(c, 10)) {
    CALL(seek, handle, one_in(c, 8) ? (int64_t)random_next(&c->r) : (int64_t)below(c, 4),
         one_in(c, 8) ? (int64_t)random_next(&c->r) : (int64_t)below(c, 30));
  }
  const int32_t code =
      CALL(next, handle, one_in(c, 9) ? INT64_MIN : (int64_t)below(c, 30), &h->batch);
  pthread_mutex_unlock(lock);
  if (code != HR_OK) {
    h->batch.batch = 0;
    return;
  }
  if (h->batch.length < 0 || h->batch.field_count < 1 || h->batch.field_count > HR_MAX_FIELDS) {
    fail(c, "hr_next", "no batch");
  }
  h->sum = sum_of(&h->batch);
}

static void submit(caller *c) {
  int64_t indices[40];
  uint64_t draws[40];
  const size_t length = below(c, 40);
  for (size_t i = 0; i < 40; i++) {
    indices[i] = one_in(c, 400) ? (int64_t)random_next(&c->r) : (int64_t)below(c, 3);
    draws[i] = random_next(&c->r);
  }
  const bool end = one_in(c, 6);
  CALL(submit, some_handle(c, LOADER), end ? NULL : indices, end || one_in(c, 2) ? NULL : draws,
       end && !one_in(c, 8) ? 0 : length);
}

static void ask_loader(caller *c) {
  size_t capacity, need = 0;
  char *buffer = some_buffer(c, &capacity);
  const hr_handle handle = some_handle(c, LOADER);
  int32_t descriptor = -1, code = CALL(loader_info, handle, buffer, capacity, &need);
  check_buffer(c, "hr_loader_info", code, buffer, capacity, need, true);
  const char *slot = code == HR_OK ? strstr(buffer, "\"slot_bytes\":") : NULL;
  if (slot != NULL && one_in(c, 3)) {
    const uint64_t bytes = strtoull(slot + 13, NULL, 10), less = one_in(c, 9) ? below(c, 64) : 0;
    loan *l = bytes < 1 << 22 ? malloc(sizeof *l) : NULL;
    if (l != NULL) {
      l->memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
      if (l->memory == NULL) abort();
      pthread_mutex_lock(&lending);
      l->next = loans;
      loans = l;
      pthread_mutex_unlock(&lending);
      CALL(lend, handle, (char *)l->memory + (one_in(c, 20) ? 1 : 0), bytes - less,
           (int64_t)random_next(&c->r));
    }
  }
  CALL(loader_event, handle, &descriptor);
  /* It does not go into a file, because thousands of calls would leave as many. */
  const char *const paths[] = {"/dev/null", "/", "/nowhere/run.json"};
  const char *path = paths[below(c, COUNT(paths))];
  CALL(trace, handle, one_in(c, 2) ? path : NULL, one_in(c, 2) ? strlen(path) : 0);
  CALL(span, handle, (int32_t)below(c, 5) - 1, 0, (int64_t)below(c, 9), (int64_t)below(c, 9),
       (int64_t)below(c, 9));
  free(buffer);
}

static void open_writer(caller *c) {
  static const char *const more[] = {
      "\"shard_bytes\": #", "\"classes\": [\"a\", \"b\"]",
      "\"fields\": [{\"name\": \"boxes\", \"type\": \"array\", \"dtype\": \"float32\"}]",
      "\"fields\": [{\"name\": #, \"type\": #}]", "\"threads\": #"};
  char first[64];
  snprintf(first, sizeof first, "\"destination\": \"made-%u\"",
           (unsigned)atomic_fetch_add(&places, 1) % 24);
  const text config = configuration(&c->r, first, more, COUNT(more), false);
  hr_handle handle = 0;
  if (CALL(writer_open, config.bytes, config.length, &handle) == HR_OK) share(c, WRITER, handle);
}

static void write_sample(caller *c, hr_handle handle) {
  static const char *const more[] = {"\"key\": \"k&\"", "\"caption\": \"x\"", "\"size\": #",
                                     "\"boxes\": {\"dtype\": \"float32\", \"shape\": [1, 4], "
                                     "\"data\": \"AAAAAAAAAAAAAIA/AACAPw==\"}",
                                     "\"score\": {\"float\": \"nan\"}"};
  image_bytes file = some_image(&c->r);
  const text fields = configuration(&c->r, one_in(c, 5) ? "\"label\": #" : "\"label\": 1", more,
                                    one_in(c, 3) ? COUNT(more) : 1, true);
  CALL(writer_add, handle, file.bytes, file.length, fields.bytes, fields.length);
  free(file.bytes);
}

static void use_writer(caller *c) {
  const hr_handle handle = some_handle(c, WRITER);
  for (uint64_t n = below(c, 5); n > 0; n--) write_sample(c, handle);
  if (one_in(c, 4)) CALL(writer_finish, handle);
}

/* Starts a job that reads fields of samples of a handle that another thread may close meanwhile. */
static void read_fields(caller *c) {
  char config[200];
  hr_handle handle = 0;
  const int length =
      snprintf(config, sizeof config,
               "{\"job\": \"fields\", \"dataset\": %lld, \"indices\": [%d, %d], \"fields\": [%s]}",
               (long long)some_handle(c, DATASET), (int)below(c, 30) - 1, (int)below(c, 5),
               one_in(c, 3) ? "\"caption\"" : "");
  if (CALL(job_start, config, (size_t)length, &handle) == HR_OK) share(c, JOB, handle);
}

static void use_job(caller *c) {
  if (one_in(c, 4)) read_fields(c);
  static const char *const more[] = {
      "\"shard_bytes\": #",    "\"threads\": #", "\"no_seek\": true",  "\"on_fault\": \"raise\"",
      "\"allow_empty\": true", "\"resize\": %",  "\"overwrite\": true"};
  static const char *const kinds[] = {"pack", "index", "verify"};
  hr_handle handle = 0;
  if (one_in(c, 2)) {
    char first[200];
    const unsigned kind = (unsigned)below(c, 3);
    snprintf(first, sizeof first, "\"job\": \"%s\", \"source\": \"%s\"%s%u%s", kinds[kind],
             kind == 2 ? "packed" : "folder",
             kind == 2   ? ", \"threads\": "
             : kind == 0 ? ", \"destination\": \"made-"
                         : ", \"index_dir\": \"made-",
             (unsigned)atomic_fetch_add(&places, 1) % 24, kind == 2 ? "" : "\"");
    const text config = configuration(&c->r, first, more, COUNT(more), false);
    if (CALL(job_start, config.bytes, config.length, &handle) == HR_OK) share(c, JOB, handle);
  }
  hr_progress progress;
  size_t capacity, need = 0;
  if (handle == 0 || one_in(c, 3)) handle = some_handle(c, JOB);
  CALL(job_wait, handle, one_in(c, 9) ? -1 : (int64_t)below(c, 200),
       one_in(c, 4) ? NULL : &progress);
  char *buffer = some_buffer(c, &capacity);
  const int32_t code = CALL(job_result, handle, buffer, capacity, &need);
  check_buffer(c, "hr_job_result", code, buffer, capacity, need, true);
  free(buffer);
}

/* It is no guessed handle, because that could be the batch that another thread holds. */
static void close_one(caller *c) {
  CALL(close, atomic_load(&shared[below(c, KINDS)][below(c, HANDLES)]));
}

/* Passes NULL in the place of each pointer in turn. */
static void leave_out(caller *c) {
  const hr_handle handle = some_handle(c, (enum kind)below(c, KINDS));
  char one = 0;
  hr_handle made = 0;
  if (CALL(dataset_open, NULL, below(c, 9), &made) == HR_OK) fail(c, "hr_dataset_open", "NULL");
  if (CALL(loader_open, handle, "{}", 2, NULL) == HR_OK) fail(c, "hr_loader_open", "NULL");
  CALL(dataset_info, handle, 0, NULL, 9, NULL);
  CALL(dataset_read, handle, 0, (uint8_t *)&one, 1, NULL);
  if (CALL(next, handle, 0, NULL) == HR_OK) fail(c, "hr_next", "NULL");
  CALL(decode, NULL, 5, "{}", 2, NULL, 0, NULL);
  CALL(decode, (const uint8_t *)&one, 1, NULL, 0, NULL, 0, NULL);
  if (CALL(decoder_submit, handle, NULL, 3, &made) == HR_OK) fail(c, "hr_decoder_submit", "NULL");
  CALL(decoder_open, "{}", 2, NULL);
  CALL(decoder_result, handle, 0, NULL);
  CALL(lend, handle, NULL, 64, 0);
  CALL(job_start, NULL, 0, &made);
  CALL(writer_add, handle, NULL, 3, "{}", 2);
  CALL(close, 0);
  hr.close(c->released, NULL);
}

static void call(caller *c) {
  static void (*const calls[])(caller *) = {
      open_dataset, ask_dataset, decode,  open_loader, open_decoder, decode_many, decode_many,
      next,         next,        next,    next,        submit,       ask_loader,  open_writer,
      use_writer,   use_writer,  use_job, close_one,   leave_out};
  const uint64_t kind = below(c, COUNT(calls) + 24);
  /* Most of the time this calls what costs little and depends on luck with the handle. */
  if (kind < COUNT(calls)) {
    calls[kind](c);
  } else if (kind < COUNT(calls) + 4) {
    open_loader(c);
  } else {
    next(c);
  }
}

/* ---- the whole ---- */

static uint64_t calls = 20000, seed = 1;
static time_t end;

static void *work(void *argument) {
  caller *c = argument;
  for (; c->number < calls && (end == 0 || time(NULL) < end); c->number++) call(c);
  for (int i = 0; i < HELD; i++) release(c, &c->held[i]);
  return NULL;
}

/* Go's runtime keeps two descriptors from its first timer on. */
static void warm_up(caller *c) {
  static const char config[] = "{\"job\": \"verify\", \"source\": \"packed\"}";
  hr_handle job = 0;
  if (CALL(job_start, config, sizeof config - 1, &job) != HR_OK) fail(c, "prepare", "job");
  if (CALL(job_wait, job, 60000, NULL) != HR_OK) fail(c, "prepare", "wait");
  CALL(close, job);
}

/* A packed dataset, and a folder of classes with a file that is no image. */
static void prepare(caller *c) {
  hr_handle writer = 0;
  static const char config[] = "{\"destination\": \"packed\", \"classes\": [\"a\", \"b\"]}";
  if (CALL(writer_open, config, sizeof config - 1, &writer) != HR_OK) fail(c, "prepare", "open");
  for (int i = 0; i < 24; i++) {
    text fields = {.length = 0};
    append(
        &fields,
        "{\"label\": %d, \"key\": \"%d\", \"boxes\": {\"dtype\": \"float32\", \"shape\": [1, 4], "
        "\"data\": \"AAAAAAAAAAAAAIA/AACAPw==\"}}",
        i % 2, i);
    image_bytes file = i % 12 == 5 ? random_jpeg(&c->r) : made_image(&c->r);
    if (CALL(writer_add, writer, file.bytes, file.length, fields.bytes, fields.length) != HR_OK) {
      fail(c, "prepare", "add");
    }
    free(file.bytes);
  }
  if (CALL(writer_finish, writer) != HR_OK) fail(c, "prepare", "finish");
  CALL(close, writer);
  mkdir("folder", 0700);
  mkdir("folder/a", 0700);
  mkdir("folder/b", 0700);
  for (int i = 0; i < 16; i++) {
    char path[40];
    snprintf(path, sizeof path, "folder/%c/%d%s", 'a' + i % 2, i, i < 2 ? "" : ".jpg");
    image_bytes file = made_image(&c->r);
    FILE *to = fopen(path, "wb");
    if (to == NULL || fwrite(file.bytes, 1, i == 9 ? 20 : file.length, to) == 0) abort();
    fclose(to);
    free(file.bytes);
  }
}

/* How many there are; with `name`, also prints what they are. */
static int open_descriptors(bool name) {
  int count = 0;
  DIR *directory = opendir("/proc/self/fd");
  struct dirent *entry;
  while (directory != NULL && (entry = readdir(directory)) != NULL) {
    char target[256];
    const ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target);
    if (name && length > 0) fprintf(stderr, "%s: %.*s\n", entry->d_name, (int)length, target);
    count++;
  }
  if (directory != NULL) closedir(directory);
  return count;
}

static void close_all(caller *c) {
  for (int i = 0; i < KINDS * HANDLES; i++) {
    const hr_handle handle = atomic_exchange(&shared[i / HANDLES][i % HANDLES], 0);
    if (handle != 0) CALL(close, handle);
  }
}

int main(int count, char **arguments) {
  enum { MOST = 32 };
  static caller callers[MOST + 1];
  uint64_t threads = 3;
  int i = 1;
  for (; i + 1 < count && arguments[i][0] == '-'; i += 2) {
    const char *value = arguments[i + 1];
    if (strcmp(arguments[i], "-n") == 0) calls = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-j") == 0) threads = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-t") == 0) end = time(NULL) + atol(value), calls = UINT64_MAX;
  }
  if (i + 2 != count || threads > MOST) {
    fprintf(stderr,
            "usage: calls [-n CALLS] [-t SECONDS] [-s SEED] [-j THREADS] LIBRARY DIRECTORY\n");
    return 2;
  }
  load(arguments[i]);
  if (chdir(arguments[i + 1]) != 0) perror(arguments[i + 1]), exit(2);
  if (hr.abi_version() != HR_ABI_VERSION) abort();
  for (int k = 0; k < LOCKS; k++) pthread_mutex_init(&iterating[k], NULL);
  caller *first = &callers[MOST];
  *first = (caller){.r = random_seeded(seed), .seed = seed};
  prepare(first);
  warm_up(first);
  const int descriptors = open_descriptors(false);
  pthread_t thread[MOST];
  for (uint64_t k = 0; k < threads; k++) {
    callers[k] = (caller){.r = random_seeded(seed + ((k + 1) << 32)), .seed = seed};
    if (pthread_create(&thread[k], NULL, work, &callers[k]) != 0) abort();
  }
  uint64_t all = 0;
  for (uint64_t k = 0; k < threads; k++) {
    pthread_join(thread[k], NULL);
    all += callers[k].number;
  }
  close_all(first);
  /* What still reads gives the rest back when its read ends. */
  for (int wait = 0; wait < 100 && open_descriptors(false) > descriptors; wait++) usleep(100000);
  if (open_descriptors(false) > descriptors) {
    fprintf(stderr, "%d descriptors at first, %d at the end\n", descriptors,
            open_descriptors(true));
    return 1;
  }
  while (loans != NULL) {
    loan *l = loans;
    loans = l->next;
    free(l->memory);
    free(l);
  }
  printf("%llu calls of seed %llu; answers by code:", (unsigned long long)all,
         (unsigned long long)seed);
  for (int k = 0; k < HR_CODES; k++) printf(" %d: %llu", k, (unsigned long long)answered[k]);
  printf("\n");
  return 0;
}

/* status.h: how a function says what went wrong. */
#ifndef HEADRACE_CORE_STATUS_H
#define HEADRACE_CORE_STATUS_H

#include <stdint.h>

/* Three words for three failures: bad (the bytes are wrong; truncated and checksum are kinds of
 * it), unsupported (the bytes are right, but we do not read them), internal (we are wrong). The
 * numbers are those of internal/fault/kinds.json. */
enum hrn_code {
  HRN_OK = 0,
  HRN_BAD = 7,          /* the bytes are no valid image of their kind */
  HRN_TRUNCATED = 8,    /* entropy data ends before the last MCU or row */
  HRN_CHECKSUM = 9,     /* CRC-32C of the record is not the stored one */
  HRN_UNSUPPORTED = 10, /* a valid kind that this decoder does not read; text names it */
  HRN_LIMIT = 11,       /* a limit of hrn_limits is exceeded; text names it and both numbers */
  HRN_MEMORY = 13,      /* an allocation failed; text says how many bytes were asked for */
  HRN_ARGUMENT = 5,     /* the caller's parameters are impossible; text names the argument */
  HRN_INTERNAL = 18,    /* we are wrong; a fuzzer treats this as a crash */
  HRN_NO_PIXELS = 23    /* an op leaves the image no pixels; Pillow raises a ValueError */
};

typedef struct hrn_status {
  int32_t code;      /* enum hrn_code */
  uint32_t warnings; /* libjpeg or zlib warnings met, pixels are still Pillow's */
  int64_t offset;    /* byte offset inside the record, -1 if unknown */
  int32_t op;        /* number of the op in its plan that the error is about, -1 for none */
  int32_t view;      /* number of the view that has that plan, from 0 */
  int32_t sides[4];  /* for a crop that does not fit: its height and width, and the most of each */
  char text[240];    /* one clause, NUL-terminated, no final period */
} hrn_status;

int hrn_fail(hrn_status *status, int code, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, but about an op of a plan and not about the record. */
int hrn_fail_op(hrn_status *status, int code, int32_t op, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static inline void hrn_status_clear(hrn_status *s) {
  s->code = HRN_OK;
  s->warnings = 0;
  s->offset = -1;
  s->op = -1;
  s->view = 0;
  s->sides[0] = 0;
  s->text[0] = 0;
}

#endif

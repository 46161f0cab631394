/* status.c: how a function says what went wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "status.h"

static void say(hrn_status *status, int code, const char *format, va_list arguments) {
  status->code = code;
  status->offset = -1;
  status->op = -1;
  status->view = 0;
  status->sides[0] = 0;
  vsnprintf(status->text, sizeof status->text, format, arguments);
}

/* Returns the code, so that a caller can return it in the same line. A text that is too long is
 * cut, never written past its end. */
int hrn_fail(hrn_status *status, int code, int64_t offset, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(status, code, format, arguments);
  va_end(arguments);
  status->offset = offset;
  return code;
}

int hrn_fail_op(hrn_status *status, int code, int32_t op, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(status, code, format, arguments);
  va_end(arguments);
  status->op = op;
  return code;
}

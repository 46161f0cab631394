/* status.c: how a function says what went wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "status.h"

/* Answers with the code, so that a caller can return it in the same line. A text that is too long
 * is cut, never written past its end. */
int hrn_fail(hrn_status *status, int code, int64_t offset, const char *format, ...) {
  va_list arguments;
  status->code = code;
  status->offset = offset;
  va_start(arguments, format);
  vsnprintf(status->text, sizeof status->text, format, arguments);
  va_end(arguments);
  return code;
}

/* context.c: makes and frees a context: its scratch memory, and what each decoder keeps. */
#include <stdlib.h>

#include "decoder.h"

/* Zeroed memory is a valid state of every part: no scratch memory, no open decoder, no tables. */
hrn_context *hrn_context_new(const hrn_limits *limits) {
  hrn_context *context = calloc(1, sizeof *context);
  if (context == NULL) return NULL;
  context->limits = limits != NULL ? *limits : hrn_default_limits();
  context->record = calloc(1, sizeof *context->record);
  if (context->record != NULL && hrn_jpeg_new(context) && hrn_png_new(context)) return context;
  hrn_context_free(context);
  return NULL;
}

/* `context` may be NULL, and an error may have left a decoder open in it. */
void hrn_context_free(hrn_context *context) {
  if (context == NULL) return;
  hrn_jpeg_free(context);
  hrn_png_free(context);
  free(context->record);
  hrn_scratch_free(context);
  free(context);
}

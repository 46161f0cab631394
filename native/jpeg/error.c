/* error.c: how libjpeg's errors and warnings become a status.
 *
 * This is a jpeg_error_mgr of our own, not jpeg_std_error, because that one prints and exits. It is
 * also the only user of libjpeg's jerror.o, which Debian builds without -fPIC and which therefore
 * must stay out of a shared library.
 */
#include "jpeg.h"

#include <jerror.h>
#include <string.h>

/* jerror.h is libjpeg's own list of messages. It is made to be included a second time for the
 * texts. Two of the texts are defined in a header that is not installed; no message here needs
 * them. */
#define JCOPYRIGHT "" /* version 3 */
#define JCOPYRIGHT_SHORT ""
#define JVERSION ""
#define JMESSAGE(code, string) string,
#undef JERROR_H
static const char *const messages[] = {
#include <jerror.h>
    NULL};

static hrn_jpeg *of(j_common_ptr info) { return (hrn_jpeg *)info->client_data; }

/* Does what jpeg_std_error's function does, which is not linked. `buffer` has the size that libjpeg
 * promises. */
static void format_message(j_common_ptr info, char *buffer) {
  struct jpeg_error_mgr *errors = info->err;
  int code = errors->msg_code;
  const char *text = code > 0 && code <= errors->last_jpeg_message
                         ? errors->jpeg_message_table[code]
                         : errors->jpeg_message_table[0];
  /* A message has either one string or up to eight numbers. */
  if (strstr(text, "%s") != NULL) {
    snprintf(buffer, JMSG_LENGTH_MAX, text, errors->msg_parm.s);
  } else {
    const int *i = errors->msg_parm.i;
    snprintf(buffer, JMSG_LENGTH_MAX, text, i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7]);
  }
}

/* The kind of failure that a libjpeg error is. */
static int kind(const hrn_jpeg *jpeg, int code) {
  switch (code) {
    case JERR_OUT_OF_MEMORY:
      return HRN_MEMORY;
    case JERR_NO_BACKING_STORE: /* max_memory_to_use is exceeded, and this libjpeg has no temporary
                                   files */
    case JERR_WIDTH_OVERFLOW:
    case JERR_IMAGE_TOO_BIG: /* its own limit of 65,500 a side, which Pillow shares */
      return HRN_LIMIT;
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOT_COMPILED:
      return HRN_UNSUPPORTED;
    case JERR_BAD_STATE:
    case JERR_BAD_STRUCT_SIZE:
    case JERR_BAD_LIB_VERSION:
    case JERR_BAD_POOL_ID:
    case JERR_BAD_VIRTUAL_ACCESS:
    case JERR_VIRTUAL_BUG:
      return HRN_INTERNAL; /* we called the library wrongly */
    default:
      return jpeg->ran_dry ? HRN_TRUNCATED : HRN_BAD;
  }
}

/* Writes by name what a reader of libjpeg's message would have to look up. */
static int name_kind(const hrn_jpeg *jpeg, int code, int parameter, char *text, size_t size) {
  switch (code) {
    case JERR_NO_BACKING_STORE:
      snprintf(text, size, "the image needs more memory than max_decoder_bytes (%llu) leaves",
               (unsigned long long)jpeg->max_bytes);
      break;
    case JERR_IMAGE_TOO_BIG: /* the parameter is the limit */
      snprintf(text, size, "the image has %u x %u pixels, a JPEG may have %d a side",
               jpeg->info.image_width, jpeg->info.image_height, parameter);
      break;
    case JERR_SOF_UNSUPPORTED: /* the parameter is the SOF marker */
      if ((parameter & 3) == 3)
        snprintf(text, size, "lossless JPEG (SOF%d)", parameter & 15);
      else
        snprintf(text, size, "hierarchical JPEG (SOF%d)", parameter & 15);
      break;
    case JERR_BAD_VIRTUAL_ACCESS: /* access to the rows of a component that no scan has */
      if (!jpeg->lossless) break;
      snprintf(text, size, "the scans have not all components of the image");
      return jpeg->ran_dry ? HRN_TRUNCATED : HRN_BAD;
    case JERR_BAD_PRECISION: /* the parameter is the bits of a sample */
      if (parameter != 12 && parameter != 16) break;
      snprintf(text, size, "%d-bit JPEG", parameter);
      return HRN_UNSUPPORTED;
    default:
      break;
  }
  return kind(jpeg, code);
}

/* Completes the status before the jump, so whoever set `escape` only cleans up. The functions that
 * are jumped over are libjpeg's, and jpeg_destroy_decompress frees their memory. */
static void error_exit(j_common_ptr info) {
  hrn_jpeg *jpeg = of(info);
  char text[JMSG_LENGTH_MAX];
  format_message(info, text);
  int code = name_kind(jpeg, info->err->msg_code, info->err->msg_parm.i[0], text, sizeof text);
  if (code == HRN_TRUNCATED) {
    hrn_jpeg_truncated(jpeg, jpeg->status); /* libjpeg's text is about the EOI we invented */
  } else {
    hrn_fail(jpeg->status, code, hrn_jpeg_offset(jpeg), "%s", text);
  }
  jpeg->status->warnings = jpeg->warnings;
  longjmp(jpeg->escape, 1);
}

/* Level -1 is a warning: the data is damaged, and libjpeg works round it. Pillow accepts that. */
static void emit_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  hrn_jpeg *jpeg = of(info);
  jpeg->warnings++;
  /* The library pads with zeros after a marker that comes too early. When that marker is the one
   * source.c invented, the file ends before its last MCU. */
  if (info->err->msg_code == JWRN_HIT_MARKER && jpeg->ran_dry) jpeg->truncated = true;
}

/* A library must not write to stderr. What is worth saying is in the status. */
static void output_message(j_common_ptr info) { (void)info; }

/* Called by the library before each image. Our count of warnings is reset with the struct. */
static void reset_error_mgr(j_common_ptr info) { info->err->msg_code = 0; }

void hrn_jpeg_errors_init(hrn_jpeg *jpeg) {
  memset(&jpeg->errors, 0, sizeof jpeg->errors);
  jpeg->errors.error_exit = error_exit;
  jpeg->errors.emit_message = emit_message;
  jpeg->errors.output_message = output_message;
  jpeg->errors.format_message = format_message;
  jpeg->errors.reset_error_mgr = reset_error_mgr;
  jpeg->errors.jpeg_message_table = messages;
  jpeg->errors.last_jpeg_message = (int)(sizeof messages / sizeof messages[0]) - 2;
  jpeg->warnings = 0;
}

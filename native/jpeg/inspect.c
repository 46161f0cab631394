/* inspect.c: the facts of a JPEG, and the verdict on all of its entropy-coded data.
 *
 * Whether a file is good is a property of the file, not of the part that some crop reads. So every
 * MCU is read once here, without making pixels: by entropy.c if the file is plain, else by libjpeg,
 * whose errors and warnings are the verdict.
 */
#include <stdlib.h>

#include "jpeg.h"

/* The ratio of the first component's sampling to that of the others. */
static uint8_t sampling_of(const struct jpeg_decompress_struct *info) {
  const jpeg_component_info *c = info->comp_info;
  int count = info->num_components;
  if (count == 1) return HRN_SAMPLING_GREY;
  if (count != 3 && count != 4) return HRN_SAMPLING_OTHER;
  /* A fourth component is black. It is stored at the resolution of the first. */
  if (count == 4 &&
      (c[3].h_samp_factor != c[0].h_samp_factor || c[3].v_samp_factor != c[0].v_samp_factor)) {
    return HRN_SAMPLING_OTHER;
  }
  int h = c[1].h_samp_factor, v = c[1].v_samp_factor;
  if (c[2].h_samp_factor != h || c[2].v_samp_factor != v || c[0].h_samp_factor % h != 0 ||
      c[0].v_samp_factor % v != 0) {
    return HRN_SAMPLING_OTHER;
  }
  switch (c[0].h_samp_factor / h * 10 + c[0].v_samp_factor / v) {
    case 11:
      return HRN_SAMPLING_444;
    case 21:
      return HRN_SAMPLING_422;
    case 22:
      return HRN_SAMPLING_420;
    case 12:
      return HRN_SAMPLING_440;
    case 41:
      return HRN_SAMPLING_411;
    default:
      return HRN_SAMPLING_OTHER;
  }
}

/* Takes the facts from libjpeg rather than from markers.c, now that it has accepted the file: the
 * two could differ if there is garbage between segments. */
static void read_facts(const hrn_jpeg *jpeg, hrn_facts *facts) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  facts->width = info->image_width;
  facts->height = info->image_height;
  facts->channels = (uint8_t)info->num_components;
  facts->bits = (uint8_t)info->data_precision;
  facts->sampling = sampling_of(info);
  facts->process = HRN_PROCESS_BASELINE;
  if (info->progressive_mode) facts->process = HRN_PROCESS_PROGRESSIVE;
  if (info->arith_code) facts->process = HRN_PROCESS_ARITHMETIC;
  if (jpeg->lossless) facts->process = HRN_PROCESS_LOSSLESS;
  facts->restart_interval = info->restart_interval;
  facts->scan_offset = (uint32_t)hrn_jpeg_offset(jpeg);
}

/* Skips all rows but the last. That one has to be read, because a skip to the very end would decode
 * nothing. libjpeg decodes only the codes of skipped rows. It cannot skip rows of a lossless
 * file. */
static void pass_rows(hrn_jpeg *jpeg, JSAMPROW row) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (jpeg->lossless) {
    while (info->output_scanline + 1 < info->output_height) jpeg_read_scanlines(info, &row, 1);
  } else if (info->output_height > 1) {
    jpeg_skip_scanlines(info, info->output_height - 1);
  }
}

/* Reads everything with libjpeg. Files of several scans are read whole by jpeg_start_decompress. */
static int read_all(hrn_context *context, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (setjmp(jpeg->escape) != 0) {
    hrn_jpeg_close(context);
    return status->code;
  }
  hrn_jpeg_start(context);
  const bool alone = !jpeg_has_multiple_scans(info);
  /* Whether a lossless file has scans of all components shows only with its first row. */
  if (alone || jpeg->lossless) {
    JSAMPROW row = hrn_scratch(context, HRN_SCRATCH_DECODE, (size_t)info->output_width * 4, status);
    if (row == NULL) return status->code;
    if (alone) pass_rows(jpeg, row);
    jpeg_read_scanlines(info, &row, 1);
  }
  /* Reads the rest of the file up to EOI. With several scans that is done already.
   * jpeg_finish_decompress would free what the verdict looks at. */
  while (alone && jpeg_consume_input(info) != JPEG_REACHED_EOI) continue;
  return hrn_jpeg_verdict(jpeg, status);
}

/* Takes memory for the points of a scan, if they are asked for and the decoder could use them. NULL
 * is no error. */
static hrn_recorder *begin_recording(hrn_context *context, hrn_recorder *recorder) {
  const struct jpeg_decompress_struct *info = &context->jpeg->info;
  const bool alone = info->num_components == 1;
  uint32_t h = (uint32_t)info->max_h_samp_factor, v = (uint32_t)info->max_v_samp_factor;
  hrn_status ignored;
  if (context->jpeg->seek_step == 0 || info->num_components > HRN_MAX_COMPONENTS ||
      (alone && (h != 1 || v != 1))) { /* as hrn_hook_accepts */
    return NULL;
  }
  recorder->step = context->jpeg->seek_step;
  recorder->columns = (info->image_width + DCTSIZE * h - 1) / (DCTSIZE * h);
  recorder->rows = (info->image_height + DCTSIZE * v - 1) / (DCTSIZE * v);
  size_t points =
      (size_t)((recorder->columns + recorder->step - 1) / recorder->step) * recorder->rows;
  recorder->points =
      hrn_scratch(context, HRN_SCRATCH_BLOCKS, points * sizeof *recorder->points, &ignored);
  return recorder->points != NULL ? recorder : NULL;
}

/* Packs what was recorded, where it fits the format. */
static void end_recording(hrn_context *context, const hrn_recorder *recorder,
                          const hrn_seek_point *points) {
  uint32_t a_row = (recorder->columns + recorder->step - 1) / recorder->step;
  uint32_t components = (uint32_t)context->jpeg->info.num_components;
  hrn_status ignored;
  size_t size = hrn_seek_pack(points, a_row, recorder->rows, components, recorder->step, NULL, 0);
  uint8_t *record = size > 0 ? hrn_scratch(context, HRN_SCRATCH_SEEK, size, &ignored) : NULL;
  if (record == NULL) return;
  hrn_seek_pack(points, a_row, recorder->rows, components, recorder->step, record, size);
  context->jpeg->seek = record;
  context->jpeg->seek_length = size;
}

/* entropy.c is asked only about files whose header drew no warning: a clean answer must mean that
 * libjpeg has nothing to say about the whole file. */
int hrn_jpeg_inspect(hrn_context *context, int depth, hrn_facts *facts, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  uint32_t width, height;
  hrn_jpeg_markers(context->bytes, context->length, facts);
  if (hrn_jpeg_header(context, &width, &height, status) != HRN_OK) return status->code;
  read_facts(jpeg, facts);
  /* HRN_SCRATCH_MIDDLE belongs to the resizer, which has nothing to do while a file is
   * inspected. */
  if (depth == HRN_ENTROPY) {
    if (context->jpeg->entropy == NULL)
      context->jpeg->entropy = calloc(1, sizeof *context->jpeg->entropy);
    size_t left = jpeg->source.bytes_in_buffer;
    uint8_t *work = hrn_scratch(context, HRN_SCRATCH_MIDDLE, left + HRN_ENTROPY_PADDING, status);
    if (work == NULL || context->jpeg->entropy == NULL) {
      /* libjpeg needs neither. */
      hrn_status_clear(status);
      read_all(context, status);
    } else {
      hrn_recorder room, *recorder = begin_recording(context, &room);
      const hrn_seek_point *points = recorder != NULL ? recorder->points : NULL;
      if (jpeg->warnings != 0 || jpeg->lossless ||
          !hrn_entropy_clean(context->jpeg->entropy, &jpeg->info, jpeg->source.next_input_byte,
                             left, work, recorder)) {
        read_all(context, status);
      } else if (recorder != NULL) {
        end_recording(context, recorder, points);
      }
    }
  }
  status->warnings = jpeg->warnings;
  hrn_jpeg_close(context);
  if (depth == HRN_ENTROPY) facts->scans = jpeg->scans;
  return status->code;
}

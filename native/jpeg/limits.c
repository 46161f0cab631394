/* limits.c: what one JPEG may cost, known from its headers before anything is decoded.
 *
 * A file of several scans is kept as coefficients until the last scan is read. Each scan goes
 * through its blocks once more, even if it has hardly any bytes of its own: 99 empty scans of 89
 * million pixels fit in a quarter of a megabyte. So the coefficients' memory is asked for with the
 * first scan's header, and the blocks of every scan are added up before it is decoded.
 */
#include <limits.h>

#include "jpeg.h"

/* The scan header was just read, and libjpeg has not checked its values yet. */
static uint64_t coefficients_of_block(const struct jpeg_decompress_struct *info) {
  if (!info->progressive_mode || info->Ss < 0 || info->Se < info->Ss || info->Se >= DCTSIZE2) {
    return DCTSIZE2;
  }
  return (uint64_t)(info->Se - info->Ss + 1);
}

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* The work of a Huffman-coded scan is its blocks: a block without codes of its own costs at most a
 * look at each coefficient, and codes take bytes of the file. The work of an arithmetic-coded scan
 * is its coefficients, because each decision of that decoder costs as much as such a block, and may
 * take no byte of the file. */
static uint64_t work_of_blocks(const struct jpeg_decompress_struct *info) {
  uint64_t blocks = 0;
  if (info->comps_in_scan == 1) {
    const jpeg_component_info *c = info->cur_comp_info[0];
    blocks = (uint64_t)c->width_in_blocks * c->height_in_blocks;
  } else {
    const uint64_t h = DCTSIZE * (uint64_t)info->max_h_samp_factor;
    const uint64_t v = DCTSIZE * (uint64_t)info->max_v_samp_factor;
    const uint64_t mcus = divide_up(info->image_width, h) * divide_up(info->image_height, v);
    for (int i = 0; i < info->comps_in_scan; i++) {
      const jpeg_component_info *c = info->cur_comp_info[i];
      blocks += mcus * (uint64_t)c->h_samp_factor * (uint64_t)c->v_samp_factor;
    }
  }
  return info->arith_code ? blocks * coefficients_of_block(info) : blocks;
}

/* A lossless scan has predicted samples instead of blocks. Eight samples cost about as much as a
 * look at a block. Sampling factors do not add samples. */
static uint64_t work_of_scan(const hrn_jpeg *jpeg) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  if (!jpeg->lossless) return work_of_blocks(info);
  return divide_up((uint64_t)info->image_width * info->image_height * (uint64_t)info->comps_in_scan,
                   DCTSIZE);
}

/* Counts the scan whose header was read last, once, and jumps if it exceeds a limit. */
static void count_scan(hrn_jpeg *jpeg) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  const uint32_t scan = (uint32_t)info->input_scan_number;
  if (scan == jpeg->scan_counted) return;
  jpeg->scan_counted = scan;
  if (scan > jpeg->max_scans) {
    hrn_fail(jpeg->status, HRN_LIMIT, hrn_jpeg_offset(jpeg),
             "the file has more than %u scans (max_scans)", jpeg->max_scans);
    longjmp(jpeg->escape, 1);
  }
  const uint64_t work = work_of_scan(jpeg);
  if (work > jpeg->max_scan_blocks - jpeg->scan_blocks) {
    hrn_fail(jpeg->status, HRN_LIMIT, hrn_jpeg_offset(jpeg),
             "with scan %u there are %llu %s to decode, max_scan_blocks is %llu", scan,
             (unsigned long long)(jpeg->scan_blocks + work),
             info->arith_code ? "arithmetic-coded coefficients" : "blocks",
             (unsigned long long)jpeg->max_scan_blocks);
    longjmp(jpeg->escape, 1);
  }
  jpeg->scan_blocks += work;
}

/* libjpeg calls this for files of several scans, before it reads a scan header, a row of MCUs, or
 * to the end of a scan. */
static void progress_monitor(j_common_ptr common) { count_scan((hrn_jpeg *)common->client_data); }

void hrn_jpeg_limits_init(hrn_context *context) {
  hrn_jpeg *jpeg = context->jpeg;
  jpeg->progress.progress_monitor = progress_monitor;
  jpeg->info.progress = &jpeg->progress;
  jpeg->max_scans = context->limits.max_scans;
  jpeg->max_scan_blocks = context->limits.max_scan_blocks;
  jpeg->max_bytes = context->limits.max_decoder_bytes;
  jpeg->scan_counted = 0;
  jpeg->scan_blocks = 0;
}

/* The memory for all coefficients: 2 bytes each, for whole MCUs; for a lossless file one byte for
 * each sample. Everything else that libjpeg allocates is a few rows. */
static uint64_t coefficient_bytes(const hrn_jpeg *jpeg) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  uint64_t blocks = 0;
  for (int i = 0; i < info->num_components; i++) {
    const jpeg_component_info *c = &info->comp_info[i];
    /* Rounded up by less than one MCU a side. */
    blocks += ((uint64_t)c->width_in_blocks + (uint64_t)c->h_samp_factor - 1) *
              ((uint64_t)c->height_in_blocks + (uint64_t)c->v_samp_factor - 1);
  }
  return blocks * (jpeg->lossless ? sizeof(JSAMPLE) : sizeof(JBLOCK));
}

/* Lets libjpeg take no more memory than the limit leaves. */
static void limit_memory(hrn_context *context, uint64_t coefficients) {
  hrn_jpeg *jpeg = context->jpeg;
  const uint64_t left = hrn_memory_left(context);
  context->held = coefficients;
  if (coefficients > left) {
    hrn_fail(jpeg->status, HRN_LIMIT, -1,
             "the image needs %llu bytes of memory, max_decoder_bytes is %llu",
             (unsigned long long)(jpeg->max_bytes - left + coefficients),
             (unsigned long long)jpeg->max_bytes);
    longjmp(jpeg->escape, 1);
  }
  /* To libjpeg, 0 means no limit. Nothing can be done with one byte, so 1 stands for 0. */
  jpeg->info.mem->max_memory_to_use = left > LONG_MAX ? LONG_MAX : left > 0 ? (long)left : 1;
}

void hrn_jpeg_admit(hrn_context *context) {
  hrn_jpeg *jpeg = context->jpeg;
  count_scan(jpeg);
  limit_memory(context, jpeg_has_multiple_scans(&jpeg->info) ? coefficient_bytes(jpeg) : 0);
}

void hrn_jpeg_start(hrn_context *context) {
  hrn_jpeg_admit(context);
  jpeg_start_decompress(&context->jpeg->info);
}

/* Reads all coefficients, whatever the coding. libjpeg keeps them until the struct is closed. */
jvirt_barray_ptr *hrn_jpeg_coefficients(hrn_context *context) {
  count_scan(context->jpeg);
  limit_memory(context, coefficient_bytes(context->jpeg));
  return jpeg_read_coefficients(&context->jpeg->info);
}

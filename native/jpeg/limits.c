/* limits.c: what one JPEG may cost, known from its headers before anything is decoded.
 *
 * A file of several scans is kept as coefficients until the last is read, and each scan goes
 * through its blocks once more, also where it has next to no bytes of its own: 99 empty scans of 89
 * million pixels fit in a quarter of a megabyte. So the coefficients' memory is asked for with the
 * first scan's header, and the blocks of every scan are added up before it is decoded.
 */
#include <limits.h>

#include "jpeg.h"

/* What stands in the scan header that was just read is not checked yet. */
static uint64_t coefficients_of_block(const struct jpeg_decompress_struct *info) {
  if (!info->progressive_mode || info->Ss < 0 || info->Se < info->Ss || info->Se >= DCTSIZE2) {
    return DCTSIZE2;
  }
  return (uint64_t)(info->Se - info->Ss + 1);
}

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* Of a Huffman-coded scan its blocks: those without codes of their own cost a look at most at each
 * coefficient, and codes take bytes of the file. Of an arithmetic-coded one its coefficients, for
 * every decision of that decoder costs as much as such a block, and can do without a byte. */
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

/* A lossless scan has samples, each of them predicted, in the place of blocks: eight cost about
 * what a look at a block does. Sampling factors make none of them more. */
static uint64_t work_of_scan(const hrn_jpeg *jpeg) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  if (!jpeg->lossless) return work_of_blocks(info);
  return divide_up((uint64_t)info->image_width * info->image_height * (uint64_t)info->comps_in_scan,
                   DCTSIZE);
}

/* Refuses the scan whose header was read last; jumps. Each is counted once. */
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

/* Called by the library before it reads a scan header, a row of MCUs or to the end of a scan, of
 * files of several scans. */
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

/* 2 bytes each, of whole MCUs; of a lossless file a byte for each sample. Everything else that the
 * library allocates is a few rows. */
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

/* Holds the library to the memory that the limit leaves. */
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
  /* The library's 0 means no limit; there is nothing that one byte is enough for. */
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

/* All of them, of whatever coding, kept by the library until the struct is closed. */
jvirt_barray_ptr *hrn_jpeg_coefficients(hrn_context *context) {
  count_scan(context->jpeg);
  limit_memory(context, coefficient_bytes(context->jpeg));
  return jpeg_read_coefficients(&context->jpeg->info);
}

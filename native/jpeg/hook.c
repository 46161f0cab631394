/* hook.c: puts our entropy decoder in the place of libjpeg's.
 *
 * libjpeg-turbo asks its entropy decoder for one MCU at a time, in raster order, with NULL for rows
 * that are skipped. It still does inverse DCT, upsampling and colour conversion itself. The library
 * is not changed: in every version from 6b on, cinfo->entropy begins with the three members
 * declared here. hook_check.c tests at the first use whether the linked version does.
 */
#include "hook.h"

#include <stdlib.h>
#include <string.h>

/* The public head of the entropy decoder object. jpegint.h declares it, which upstream does not
 * install. */
struct jpeg_entropy_decoder {
  void (*start_pass)(j_decompress_ptr info);
  boolean (*decode_mcu)(j_decompress_ptr info, JBLOCKROW *blocks);
  boolean insufficient_data;
};

/* Makes the tables of one block of the MCU. Blocks of a component share their tables, and building
 * a table that is there already costs only a comparison. */
static bool add_block(hrn_hook *hook, const struct jpeg_decompress_struct *info, int component) {
  const jpeg_component_info *c = info->cur_comp_info[component];
  if (c->dc_tbl_no < 0 || c->dc_tbl_no >= NUM_HUFF_TBLS || c->ac_tbl_no < 0 ||
      c->ac_tbl_no >= NUM_HUFF_TBLS) {
    return false;
  }
  const JHUFF_TBL *dc = info->dc_huff_tbl_ptrs[c->dc_tbl_no];
  const JHUFF_TBL *ac = info->ac_huff_tbl_ptrs[c->ac_tbl_no];
  if (dc == NULL || ac == NULL) return false;
  hrn_dc_table *our_dc = &hook->dc[c->dc_tbl_no];
  hrn_ac_table *our_ac = &hook->ac[c->ac_tbl_no];
  int block = hook->mcu.blocks++;
  hook->mcu.dc[block] = our_dc;
  hook->mcu.ac[block] = our_ac;
  hook->mcu.component[block] = (uint8_t)component;
  return hrn_dc_build(our_dc, dc->bits, dc->huffval) && hrn_ac_build(our_ac, ac->bits, ac->huffval);
}

/* Called after libjpeg has accepted the scan header, so its derived fields are right. A file that
 * is refused here costs more time, nothing else. */
bool hrn_hook_accepts(hrn_context *context) {
  const struct jpeg_decompress_struct *info = &context->jpeg->info;
  if (context->jpeg->kept_hook == NULL)
    context->jpeg->kept_hook = calloc(1, sizeof *context->jpeg->kept_hook);
  hrn_hook *hook = context->jpeg->kept_hook;
  if (hook == NULL) return false; /* libjpeg's own decoder does without */
  if (info->progressive_mode || info->arith_code || info->data_precision != 8 ||
      info->comps_in_scan != info->num_components || info->comps_in_scan > HRN_MAX_COMPONENTS ||
      info->Ss != 0 || info->Se != DCTSIZE2 - 1 || info->Ah != 0 || info->Al != 0 ||
      info->blocks_in_MCU > HRN_MAX_BLOCKS) {
    return false;
  }
  /* In a scan of one component its sampling factors do not count (T.81 A.2.2), but libjpeg skips by
   * them. Such files are left to libjpeg. */
  const jpeg_component_info *only = info->cur_comp_info[0];
  if (info->comps_in_scan == 1 && (only->h_samp_factor != 1 || only->v_samp_factor != 1))
    return false;

  hook->mcu.blocks = 0;
  for (int block = 0; block < info->blocks_in_MCU; block++) {
    if (!add_block(hook, info, info->MCU_membership[block])) return false;
  }
  /* libjpeg has read nothing behind the scan header yet, so its next byte is our first one. */
  hook->scan = context->jpeg->source.next_input_byte;
  hook->length = context->jpeg->source.bytes_in_buffer;
  if (hook->scan < context->bytes || hook->scan > context->bytes + context->length) return false;
  hook->columns = info->MCUs_per_row;
  hook->rows = info->MCU_rows_in_scan;
  hook->restart_interval = info->restart_interval;
  hook->components = (uint32_t)info->comps_in_scan;
  hook->irregular = false;
  hook->has_seek = false;
  return true;
}

/* libjpeg calls this for each MCU. Through the pointers that it passes, it zeroes the last MCU's
 * blocks before the call and transforms the blocks after it. We point them into the row, which
 * saves a copy of each block. */
static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW *blocks) {
  hrn_hook *hook = ((hrn_jpeg *)info->client_data)->hook;
  uint32_t column = hook->column, row = hook->row;
  if (++hook->column == hook->columns) {
    hook->column = 0;
    hook->row++;
  }
  if (blocks == NULL || column < hook->first_column || column > hook->last_column ||
      hook->irregular || row >= hook->rows) {
    return TRUE;
  }
  int16_t *mcu = hrn_hook_row(hook, row);
  if (mcu == NULL) return TRUE;
  mcu += hrn_hook_coefficients(hook, column - hook->first_column);
  /* JBLOCKROW is int16_t (*)[64], so this is the same memory by another type of pointer. */
  for (int i = 0; i < hook->mcu.blocks; i++) blocks[i] = (JBLOCKROW)(void *)(mcu + i * HRN_BLOCK);
  return TRUE;
}

/* Makes the tables for passing over MCUs if there will be some to pass over. If there may be some,
 * which is so below the rows that have points, prepares what is needed to make the tables later. */
static bool prepare_skip(hrn_context *context, hrn_hook *hook) {
  hrn_jpeg *jpeg = context->jpeg;
  hook->skips = false;
  hook->passed = 0;
  /* With restart markers, rows that have seek points may begin with a few MCUs that are not
   * needed. */
  const bool needed = !hook->has_seek || hook->restart_interval > 0;
  if (!needed && hook->seek.rows == hook->rows) return true;
  if (jpeg->entropy == NULL) jpeg->entropy = calloc(1, sizeof *jpeg->entropy);
  if (jpeg->entropy == NULL) return false;
  hook->entropy = jpeg->entropy;
  hook->info = &jpeg->info;
  return !needed || hrn_hook_make_skip(hook);
}

int hrn_hook_window(hrn_context *context, uint32_t first_column, uint32_t last_column,
                    uint32_t last_row, hrn_status *status) {
  struct jpeg_decompress_struct *info = &context->jpeg->info;
  hrn_hook *hook = context->jpeg->kept_hook;
  hook->first_column = first_column;
  hook->last_column = last_column < hook->columns ? last_column : hook->columns - 1;
  hook->last_row = last_row < hook->rows ? last_row : hook->rows - 1;
  hook->column = hook->row = hook->first_row = hook->ready_row = hook->ready_rows = 0;
  hook->has_seek = context->jpeg->seek != NULL &&
                   hrn_seek_open(&hook->seek, context->jpeg->seek, context->jpeg->seek_length,
                                 hook->columns, hook->rows, (uint32_t)info->comps_in_scan);

  hook->row_stride =
      hrn_hook_coefficients(hook, hook->last_column - hrn_hook_lead(hook) + 1) + HRN_BLOCK;
  hook->blocks =
      hrn_scratch(context, HRN_SCRATCH_BLOCKS, 2 * hook->row_stride * sizeof *hook->blocks, status);
  size_t room = hook->length + HRN_UNSTUFFED_PADDING;
  uint8_t *unstuffed = hrn_scratch(context, HRN_SCRATCH_UNSTUFFED, 2 * room, status);
  if (hook->blocks == NULL || unstuffed == NULL) return status->code;
  hook->unstuffed[0] = unstuffed;
  hook->unstuffed[1] = unstuffed + room;
  /* A walk has one segment at a time, so the second buffer has room for the places of stuffed
   * bytes. If more than a quarter of the bytes are stuffed, no points are noted. */
  const size_t skew = (uintptr_t)hook->unstuffed[1] % sizeof *hook->stuffing.at;
  void *places = hook->unstuffed[1] + (skew > 0 ? sizeof *hook->stuffing.at - skew : 0);
  hook->stuffing = (hrn_stuffing){.at = places, .room = hook->length / sizeof *hook->stuffing.at};
  hook->onward = false;
  if (!prepare_skip(context, hook)) return HRN_MEMORY; /* libjpeg's own decoder does without */
  hrn_learn_begin(context, status);
  if (!hook->has_seek) hrn_hook_start(hook);
  context->jpeg->hook = hook;
  return HRN_OK;
}

int hrn_hook_install(hrn_context *context, uint32_t left, uint32_t width, uint32_t bottom,
                     hrn_status *status) {
  struct jpeg_decompress_struct *info = &context->jpeg->info;
  bool lone = info->comps_in_scan == 1;
  uint32_t mcu_width = DCTSIZE * (uint32_t)(lone ? 1 : info->max_h_samp_factor);
  uint32_t mcu_height = DCTSIZE * (uint32_t)(lone ? 1 : info->max_v_samp_factor);
  /* jpeg_crop_scanline has moved the window's left side to a whole MCU. Fancy upsampling looks one
   * row of chroma further down. */
  if (hrn_hook_window(context, left / mcu_width, (left + width - 1) / mcu_width,
                      bottom / mcu_height, status) != HRN_OK) {
    return HRN_MEMORY;
  }
  info->entropy->decode_mcu = decode_mcu;
  return HRN_OK;
}

bool hrn_hook_irregular(const hrn_context *context) {
  return context->jpeg->hook != NULL && context->jpeg->hook->irregular;
}

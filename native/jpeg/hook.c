/* hook.c: puts our entropy decoder where libjpeg's was.
 *
 * libjpeg-turbo asks its entropy decoder for one MCU at a time, in raster order, with NULL for rows
 * that are skipped. Inverse DCT, upsampling and colour conversion stay its own. The library is not
 * changed: cinfo->entropy begins, in every version from 6b on, with the three members declared
 * here; hook_check.c tries at the first use whether the one that is linked keeps to it.
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

/* 64 symbols of 27 bits, every byte of them a stuffed one. */
#define MOST_BLOCK_BYTES (2 * HRN_BLOCK * 27 / 8)

/* Passing over MCUs needs tables of its own, and making them takes as long as decoding some 50 MCUs
 * more than are needed. A walk behind known rows has fewer to pass over, as a rule. */
#define WORTH_TABLES 64

/* The tables of one block of the MCU. Two blocks of a component share theirs, and building one that
 * is there already costs a comparison. */
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

/* Called once libjpeg has accepted the scan header, so its derived fields are right. Files that
 * this refuses lose nothing but time. */
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
  /* A lone component's sampling factors do not count in its scan (T.81 A.2.2), yet libjpeg skips
   * by them: leave such files to it. */
  const jpeg_component_info *only = info->cur_comp_info[0];
  if (info->comps_in_scan == 1 && (only->h_samp_factor != 1 || only->v_samp_factor != 1))
    return false;

  hook->mcu.blocks = 0;
  for (int block = 0; block < info->blocks_in_MCU; block++) {
    if (!add_block(hook, info, info->MCU_membership[block])) return false;
  }
  /* libjpeg has read nothing behind the scan header yet: its first byte is ours. */
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

/* ---- walking ---------------------------------------------------------------------------- */

/* Makes bytes [from, to) of the scan the segment's, as far as the next marker. */
static void enter(hrn_hook *hook, hrn_segment *segment, uint8_t *unstuffed, size_t from, size_t to,
                  size_t *end, hrn_stuffing *stuffing) {
  size_t taken, length = hrn_unstuff(unstuffed, hook->scan + from, to - from, &taken, stuffing);
  segment->bytes = unstuffed;
  segment->last_bit = (uint64_t)length * 8;
  *end = from + taken;
}

/* Makes bytes [from, limit) the walk's segment. */
static void enter_walk(hrn_hook *hook, size_t from) {
  hrn_walk *walk = &hook->walk;
  enter(hook, &walk->segment, hook->unstuffed[0], from, walk->limit, &walk->end,
        hook->noted != NULL ? &hook->stuffing : NULL);
  walk->stored = from;
  walk->stuffed = 0;
}

/* Begins a walk at a bit of the scan. A point outside of it is another file's or an attacker's. */
static void walk_from(hrn_hook *hook, size_t byte, size_t to, uint32_t bit, const int32_t *dc,
                      uint64_t mcu) {
  hrn_walk *walk = &hook->walk;
  memset(&walk->segment, 0, sizeof walk->segment);
  walk->limit = to;
  if (byte > to) {
    hook->irregular = true;
    byte = to;
  }
  enter_walk(hook, byte);
  walk->segment.bit = bit;
  if (dc != NULL) memcpy(walk->segment.dc, dc, sizeof walk->segment.dc);
  walk->mcu = mcu;
  walk->fresh = true;
}

/* Over the restart marker that must stand here (T.81 E.2.4). */
static void walk_restart(hrn_hook *hook) {
  hrn_walk *walk = &hook->walk;
  uint8_t expected = (uint8_t)(0xD0 + (walk->mcu / hook->restart_interval - 1) % 8);
  if (walk->segment.last_bit - walk->segment.bit > 7 || walk->end + 2 > walk->limit ||
      hook->scan[walk->end] != 0xFF || hook->scan[walk->end + 1] != expected) {
    hook->irregular = true;
    return;
  }
  enter_walk(hook, walk->end + 2);
  walk->segment.bit = 0;
  memset(walk->segment.dc, 0, sizeof walk->segment.dc);
}

/* The first MCU that is decoded for a row that has points: the one at or before the window. */
static uint32_t lead_column(const hrn_hook *hook) {
  return hook->has_seek ? hook->first_column - hook->first_column % hook->seek.step
                        : hook->first_column;
}

/* Makes the tables that MCUs are passed over by. Not behind the window's last row: libjpeg has
 * freed what they are made of by then. */
static bool make_skip(hrn_hook *hook) {
  hook->skips = hrn_scan_begin(&hook->skip, hook->entropy, hook->info);
  return hook->skips;
}

/* So many MCUs: to `blocks`, or passed over when that is NULL. */
static void walk_run(hrn_hook *hook, uint32_t run, int16_t *blocks) {
  hrn_walk *walk = &hook->walk;
  const uint64_t behind = walk->mcu + run;
  walk->segment.mcus = run;
  walk->segment.more = NULL;
  if (hook->next_noted != NULL) hrn_learn_run(hook, run);
  if (blocks == NULL && hook->skips) {
    hrn_skip_segment(&hook->skip, &walk->segment);
  } else {
    /* To be passed over without tables for that: into the room of a second row of the window, which
     * nobody reads. */
    walk->segment.blocks = blocks != NULL ? blocks : hook->blocks + hook->row_stride;
    hrn_decode_segment(&hook->mcu, &walk->segment);
  }
  if (walk->segment.irregular) hook->irregular = true;
  walk->mcu = behind;
  walk->fresh = false;
}

/* The next `count` MCUs: to `blocks`, or passed over when that is NULL. */
static void walk_on(hrn_hook *hook, uint32_t count, int16_t *blocks) {
  hrn_walk *walk = &hook->walk;
  while (count > 0 && !hook->irregular) {
    uint32_t run = count;
    if (hook->restart_interval > 0) {
      uint32_t into = (uint32_t)(walk->mcu % hook->restart_interval);
      if (into == 0 && walk->mcu > 0 && !walk->fresh) walk_restart(hook);
      if (hook->irregular) return;
      if (run > hook->restart_interval - into) run = hook->restart_interval - into;
    }
    if (blocks == NULL && !hook->skips) {
      const uint32_t room = hook->last_column - lead_column(hook) + 1;
      if (run > room) run = room;
    }
    walk_run(hook, run, blocks);
    if (blocks != NULL) blocks += (size_t)run * (size_t)hook->mcu.blocks * HRN_BLOCK;
    count -= run;
  }
}

void hrn_hook_onward(hrn_hook *hook) {
  const uint32_t row = hook->seek.rows - 1, number = hook->seek.points - 1;
  hrn_seek_point point;
  hrn_seek_at(&hook->seek, row, number, &point);
  walk_from(hook, point.byte, hook->length, point.bit, point.dc,
            (uint64_t)row * hook->columns + (uint64_t)number * hook->seek.step);
  hook->onward = true;
  /* The first one that is noted is that point once more. */
  if (hook->noted != NULL)
    hook->next_noted = hook->noted + (size_t)row * hook->seek.points + number;
}

void hrn_hook_pass(hrn_hook *hook, uint32_t rows) {
  const uint64_t mcus = (uint64_t)hook->columns * rows;
  if (hook->walk.mcu < mcus) walk_on(hook, (uint32_t)(mcus - hook->walk.mcu), NULL);
}

/* Whether libjpeg, at the end of its walk, would go on to EOI without an error:
 * jpeg_finish_decompress skips what is no marker, and restart markers and TEM, and refuses a second
 * scan, frame or image. All other markers are left to it. A file that ends without EOI has lost no
 * pixel. */
static bool ends_plainly(const hrn_hook *hook) {
  size_t at = hook->walk.end;
  for (;;) {
    const uint8_t *mark = memchr(hook->scan + at, 0xFF, hook->length - at);
    if (mark == NULL || (at = (size_t)(mark - hook->scan) + 1) == hook->length) return true;
    const uint8_t marker = hook->scan[at];
    if (marker == 0xFF) continue; /* a fill byte */
    const bool bare = marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD7);
    if (!bare) return marker == JPEG_EOI;
    at++;
  }
}

/* ---- rows of the window ------------------------------------------------------------------- */

/* MCUs lie one after the other, blocks in the order of the scan, so that decode_mcu only counts. */
static size_t row_coefficients(const hrn_hook *hook, uint32_t mcus) {
  return (size_t)mcus * (size_t)hook->mcu.blocks * HRN_BLOCK;
}

/* Points that were learned may end above a row. */
static bool has_points(const hrn_hook *hook, uint32_t row) {
  return hook->has_seek && row < hook->seek.rows;
}

/* Where a row's bytes end: at the point behind the window, so that no more than needed is
 * unstuffed. No further than its MCUs can reach: hostile points could else make every row copy the
 * scan. */
static size_t row_end(const hrn_hook *hook, uint32_t row, size_t from) {
  uint32_t after = hook->last_column / hook->seek.step + 1;
  size_t to = hook->length;
  if (after < hook->seek.points || has_points(hook, row + 1)) {
    hrn_seek_point next;
    bool same = after < hook->seek.points;
    hrn_seek_at(&hook->seek, same ? row : row + 1, same ? after : 0, &next);
    /* The byte that the next point stands in may hold this row's last bits, and may be a stuffed
     * one. */
    if (next.byte < to && to - next.byte > 2) to = (size_t)next.byte + 2;
  }
  uint64_t mcus = hook->last_column - lead_column(hook) + 1;
  uint64_t most = mcus * (uint32_t)hook->mcu.blocks * MOST_BLOCK_BYTES + 8;
  return to > from && to - from > most ? from + (size_t)most : to;
}

/* One row's segment from its seek point to the window's right edge. */
static void enter_row(hrn_hook *hook, uint32_t row, uint32_t slot, hrn_segment *segment) {
  hrn_seek_point point;
  hrn_seek_at(&hook->seek, row, hook->first_column / hook->seek.step, &point);
  memset(segment, 0, sizeof *segment);
  size_t from = point.byte, to = row_end(hook, row, from), end;
  if (from > to) {
    hook->irregular = true;
    from = to;
  }
  enter(hook, segment, hook->unstuffed[slot], from, to, &end, NULL);
  segment->bit = point.bit;
  memcpy(segment->dc, point.dc, sizeof segment->dc);
  segment->blocks = hook->blocks + slot * hook->row_stride;
  segment->mcus = hook->last_column - lead_column(hook) + 1;
}

/* Two rows, for two streams in turn: libjpeg asks for the second one soon after. More than two, in
 * a queue, were no faster. */
static void decode_rows_from_points(hrn_hook *hook, uint32_t row) {
  hrn_segment first, second;
  bool two = row < hook->last_row && has_points(hook, row + 1);
  memset(hook->blocks, 0, (two ? 2 : 1) * hook->row_stride * sizeof *hook->blocks);
  enter_row(hook, row, 0, &first);
  if (two) {
    enter_row(hook, row + 1, 1, &second);
    hrn_decode_segments(&hook->mcu, &first, &second);
  } else {
    hrn_decode_segment(&hook->mcu, &first);
  }
  if (first.irregular || (two && second.irregular)) hook->irregular = true;
  hook->ready_rows = two ? 2 : 1;
}

/* Without points the walk goes through every MCU on the way; with restart markers a row's walk
 * begins at its point. */
static void decode_row_walking(hrn_hook *hook, uint32_t row) {
  uint64_t start = (uint64_t)row * hook->columns + hook->first_column;
  if (has_points(hook, row)) {
    hrn_seek_point point;
    uint32_t number = hook->first_column / hook->seek.step;
    hrn_seek_at(&hook->seek, row, number, &point);
    walk_from(hook, point.byte, row_end(hook, row, point.byte), point.bit, point.dc,
              (uint64_t)row * hook->columns + (uint64_t)number * hook->seek.step);
  } else if (hook->has_seek && !hook->onward) {
    hrn_hook_onward(hook);
  }
  memset(hook->blocks, 0, hook->row_stride * sizeof *hook->blocks);
  uint64_t away = start - hook->walk.mcu;
  hook->passed += (uint32_t)away;
  if (hook->passed > WORTH_TABLES && !hook->skips && !make_skip(hook)) hook->irregular = true;
  if (away > 0) walk_on(hook, (uint32_t)away, NULL);
  walk_on(hook, hook->last_column - hook->first_column + 1, hook->blocks);
  hook->ready_rows = 1;
  /* A file whose last row has seek points was read to its end when they were noted. */
  if (row + 1 == hook->rows && !has_points(hook, row) && !ends_plainly(hook)) {
    hook->irregular = true;
  }
}

/* Rows come in order and each is asked for once for every MCU of the window; only the first of
 * these calls decodes. */
static void make_ready(hrn_hook *hook, uint32_t row) {
  if (row >= hook->ready_row && row < hook->ready_row + hook->ready_rows) return;
  hook->ready_row = row;
  if (hook->ready_rows == 0) hook->first_row = row;
  if (has_points(hook, row) && hook->restart_interval == 0) {
    decode_rows_from_points(hook, row);
  } else {
    decode_row_walking(hook, row);
  }
}

int16_t *hrn_hook_row(hrn_hook *hook, uint32_t row) {
  if (!hook->irregular) make_ready(hook, row);
  if (hook->irregular) return NULL;
  const bool points = has_points(hook, row) && hook->restart_interval == 0;
  const uint32_t lead = points ? lead_column(hook) : hook->first_column;
  return hook->blocks + (row - hook->ready_row) * hook->row_stride +
         row_coefficients(hook, hook->first_column - lead);
}

/* libjpeg's call for one MCU. It zeroes the last MCU's blocks before and transforms them after,
 * both through the pointers it hands us: pointing them at the row spares a copy of each block. */
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
  mcu += row_coefficients(hook, column - hook->first_column);
  /* JBLOCKROW is int16_t (*)[64]: the same memory by another type of pointer. */
  for (int i = 0; i < hook->mcu.blocks; i++) blocks[i] = (JBLOCKROW)(void *)(mcu + i * HRN_BLOCK);
  return TRUE;
}

/* Makes the tables to pass over MCUs where there will be some, and readies what is needed to make
 * them later where there may be: below the rows that have points. */
static bool prepare_skip(hrn_context *context, hrn_hook *hook) {
  hrn_jpeg *jpeg = context->jpeg;
  hook->skips = false;
  hook->passed = 0;
  /* Rows with seek points between restart markers may begin with a few MCUs of no use. */
  const bool needed = !hook->has_seek || hook->restart_interval > 0;
  if (!needed && hook->seek.rows == hook->rows) return true;
  if (jpeg->entropy == NULL) jpeg->entropy = calloc(1, sizeof *jpeg->entropy);
  if (jpeg->entropy == NULL) return false;
  hook->entropy = jpeg->entropy;
  hook->info = &jpeg->info;
  return !needed || make_skip(hook);
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

  hook->row_stride = row_coefficients(hook, hook->last_column - lead_column(hook) + 1) + HRN_BLOCK;
  hook->blocks =
      hrn_scratch(context, HRN_SCRATCH_BLOCKS, 2 * hook->row_stride * sizeof *hook->blocks, status);
  size_t room = hook->length + HRN_UNSTUFFED_PADDING;
  uint8_t *unstuffed = hrn_scratch(context, HRN_SCRATCH_UNSTUFFED, 2 * room, status);
  if (hook->blocks == NULL || unstuffed == NULL) return status->code;
  hook->unstuffed[0] = unstuffed;
  hook->unstuffed[1] = unstuffed + room;
  /* A walk has one segment at a time. Of more stuffed bytes than a quarter no points are noted. */
  const size_t skew = (uintptr_t)hook->unstuffed[1] % sizeof *hook->stuffing.at;
  void *places = hook->unstuffed[1] + (skew > 0 ? sizeof *hook->stuffing.at - skew : 0);
  hook->stuffing = (hrn_stuffing){.at = places, .room = hook->length / sizeof *hook->stuffing.at};
  hook->onward = false;
  if (!prepare_skip(context, hook)) return HRN_MEMORY; /* libjpeg's own decoder does without */
  hrn_learn_begin(context, status);
  if (!hook->has_seek) walk_from(hook, 0, hook->length, 0, NULL, 0);
  context->jpeg->hook = hook;
  return HRN_OK;
}

int hrn_hook_install(hrn_context *context, uint32_t left, uint32_t width, uint32_t bottom,
                     hrn_status *status) {
  struct jpeg_decompress_struct *info = &context->jpeg->info;
  bool lone = info->comps_in_scan == 1;
  uint32_t mcu_width = DCTSIZE * (uint32_t)(lone ? 1 : info->max_h_samp_factor);
  uint32_t mcu_height = DCTSIZE * (uint32_t)(lone ? 1 : info->max_v_samp_factor);
  /* Columns of the window as jpeg_crop_scanline moved it, so a whole MCU on the left. Fancy
   * upsampling looks one row of chroma further down. */
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

/* writer.c: where the rows of a stage go: into an image, or as finished values to where they
 * belong. */
#include <string.h>

#include "../core/times.h"
#include "mix.h"

static void write_patch(const hrn_writer *writer, const hrn_patch *patch, int32_t y,
                        const uint8_t *pixels) {
  uint8_t *row = (uint8_t *)patch->destination + (size_t)y * writer->pitch.row;
  const size_t pixel = writer->pitch.row / (size_t)writer->width;
  int32_t from[2], to[2];
  const int runs = hrn_patch_runs(patch, y, writer->width, from, to);
  for (int k = 0; k < runs; k++) {
    if (from[k] >= to[k]) continue;
    const int32_t first = writer->flip_x ? writer->width - to[k] : from[k];
    writer->write(writer->format, pixels + 4 * (size_t)first, to[k] - from[k], writer->flip_x,
                  row + (size_t)from[k] * pixel, writer->pitch.plane);
  }
}

static void write_row(const hrn_sink *sink, int32_t row, const uint8_t *pixels) {
  const hrn_writer *writer = (const hrn_writer *)sink;
  const int32_t y = writer->flip_y ? writer->height - 1 - row : row;
  for (int k = 0; k < 2; k++) {
    if (writer->patches[k].destination != NULL) write_patch(writer, &writer->patches[k], y, pixels);
  }
  if (writer->image == NULL) return;
  uint8_t *out = writer->image->pixels + (size_t)y * writer->image->stride;
  if (writer->flip_x) {
    hrn_write_kernels_chosen()->reverse(pixels, writer->width, out);
  } else {
    memcpy(out, pixels, (size_t)writer->width * 4);
  }
  for (int32_t k = 0; k < writer->mixer_count; k++) hrn_mixer_row(&writer->mixers[k], y);
}

hrn_writer hrn_image_writer(const hrn_image *image, int32_t width, int32_t height) {
  return (hrn_writer){.sink = {write_row}, .image = image, .width = width, .height = height};
}

hrn_writer hrn_finished_writer(const hrn_format *format, int32_t width, int32_t height,
                               uint8_t *destination) {
  return (hrn_writer){.sink = {write_row},
                      .patches = {{destination, 0, 0, height, width, 0}},
                      .format = format,
                      .write = hrn_write_of(format),
                      .pitch = hrn_pitch_of(format, width, height),
                      .width = width,
                      .height = height};
}

/* A row of 224 pixels is written in about 100 ns, and reading the clock takes 25 to 50. So one row
 * of sixteen is timed, and its time is counted for all of them. */
enum { ROWS_A_LOOK = 16 };

static void write_timed(const hrn_sink *sink, int32_t row, const uint8_t *pixels) {
  if (row % ROWS_A_LOOK != 0) {
    write_row(sink, row, pixels);
    return;
  }
  const hrn_writer *writer = (const hrn_writer *)sink;
  const int32_t left = writer->height - row;
  const int64_t began = hrn_now();
  write_row(sink, row, pixels);
  *writer->ns += (hrn_now() - began) * (left < ROWS_A_LOOK ? left : ROWS_A_LOOK);
}

void hrn_writer_time(hrn_writer *writer, int64_t *ns) {
  writer->sink.row = write_timed;
  writer->ns = ns;
}

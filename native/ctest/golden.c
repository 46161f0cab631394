/* golden.c: seeds give the same pixels on every machine.
 *
 * Generated images of every sampling and coding go through random crops, every filter, dtype,
 * layout and arithmetic. The checksum of all finished samples must be the one in this file,
 * whatever the instruction set, the byte order of registers and the library's version.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../native.h"
#include "images.h"

enum { IMAGES = 400, HEIGHT = 37, WIDTH = 51 };
static const uint32_t expected = 0x1b35f998;

static hrn_plan *plan_number(int n) {
  const hrn_op ops[] = {{.kind = HRN_OP_RANDOM_RESIZED_CROP,
                         .filter = n % 6,
                         .resized_crop = {{HEIGHT, WIDTH}, {0.08, 1}, {0.75, 4.0 / 3}}},
                        {.kind = HRN_OP_HORIZONTAL_FLIP, .probability = 0.5}};
  const int dtype = n / 6 % 4;
  const hrn_output output = {.dtype = dtype,
                             .layout = n / 24 % 2,
                             .scale = n / 48 % 2,
                             .normalize = dtype != HRN_UINT8,
                             .mean = {0.485f, 0.456f, 0.406f},
                             .std = {0.229f, 0.224f, 0.225f}};
  hrn_status status;
  hrn_plan *plan = hrn_plan_new(ops, 2, &output, &status);
  if (plan == NULL) {
    fprintf(stderr, "%s\n", status.text);
    exit(2);
  }
  return plan;
}

int main(void) {
  static uint8_t sample[HEIGHT * WIDTH * 3 * sizeof(float)];
  random_state r = random_seeded(7);
  hrn_context *context = hrn_context_new(NULL);
  uint32_t crc = 0;
  int made = 0;
  if (context == NULL) abort();
  for (int n = 0; n < IMAGES; n++) {
    const uint32_t width = 1 + (uint32_t)random_below(&r, 200);
    const uint32_t height = 1 + (uint32_t)random_below(&r, 150);
    image_bytes file =
        make_jpeg(&r, &jpeg_forms[n % jpeg_form_count], (enum jpeg_coding)(n / jpeg_form_count % 4),
                  n % 3 * 2, width, height, 40 + n % 60);
    if (file.length == 0) continue;
    hrn_plan *plan = plan_number(n);
    hrn_status status;
    hrn_size size;
    const hrn_job job = {.bytes = file.bytes,
                         .length = file.length,
                         .key = {1, 2, (uint64_t)n, 0, 0},
                         .view_count = 1,
                         .views = {{plan, sample, sizeof sample}}};
    if (hrn_plan_size(plan, width, height, &size, &status) != HRN_OK ||
        hrn_sample(context, &job, &status) != HRN_OK) {
      fprintf(stderr, "image %d: %s\n", n, status.text);
      return 2;
    }
    crc = hrn_crc32c(crc, sample, (size_t)size.bytes);
    made++;
    hrn_plan_free(plan);
    free(file.bytes);
  }
  hrn_context_free(context);
  printf("%d samples, %s: checksum %08x, expected %08x\n", made, hrn_simd_name(), crc, expected);
  return crc != expected;
}

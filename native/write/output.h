/* output.h: the form of a finished sample. */
#ifndef HEADRACE_WRITE_OUTPUT_H
#define HEADRACE_WRITE_OUTPUT_H

#include <stdint.h>

enum hrn_dtype { HRN_UINT8 = 0, HRN_FLOAT16 = 1, HRN_BFLOAT16 = 2, HRN_FLOAT32 = 3 };
enum hrn_layout { HRN_NCHW = 0, HRN_NHWC = 1 };
enum hrn_scale { /* uint8 to float: v1's ToTensor divides by 255, v2's ToDtype multiplies by 1/255
                  */
                 HRN_SCALE_DIV = 0,
                 HRN_SCALE_MUL = 1
};

enum hrn_mode {
  HRN_EXACT = 0, /* every byte as Pillow and torchvision give it */
  HRN_FAST = 1   /* close to that (docs/exactness.md), and just as deterministic */
};

typedef struct hrn_output {
  int32_t dtype, layout, scale, mode;
  int32_t passes;                      /* enum hrn_passes (resize/resize.h) */
  int32_t unmixed;                     /* 1: hrn_sample writes patches, and what hrn_mix takes */
  int32_t grey;                        /* 1: only the first of the three channels is written */
  int32_t source_width, source_height; /* of every image that the plan will see; 0: unknown */
  int32_t source_grey;                 /* 1: each of those images has one channel */
  int32_t normalize;                   /* 0 or 1 */
  float mean[3], std[3];               /* as torchvision holds them: float32 */
} hrn_output;

#endif

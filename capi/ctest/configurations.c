/* configurations.c: what calls.c says in JSON, mostly valid. */
#include "configurations.h"

#include <stdarg.h>
#include <stdio.h>

static bool one_in(random_state *r, uint64_t n) { return random_below(r, n) == n - 1; }

void append(text *t, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int n = vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, values);
  va_end(values);
  if (n > 0) t->length += (size_t)n;
  if (t->length >= sizeof t->bytes) t->length = sizeof t->bytes - 1;
}

static void append_value(random_state *r, text *t, bool side) {
  static const char *const wild[] = {"0",
                                     "-1",
                                     "255",
                                     "2147483647",
                                     "2147483648",
                                     "4294967296",
                                     "9007199254740993",
                                     "9223372036854775807",
                                     "18446744073709551616",
                                     "-9223372036854775809",
                                     "0.5",
                                     "1e308",
                                     "1e999",
                                     "-0",
                                     "null",
                                     "true",
                                     "\"x\"",
                                     "[]",
                                     "{}",
                                     "[1, 2]",
                                     "\"\\u0000\\n\\ud800\"",
                                     "[[[[[[[[1]]]]]]]]"};
  if (one_in(r, side ? 100 : 30)) {
    append(t, "%s", wild[random_below(r, sizeof wild / sizeof wild[0])]);
  } else {
    append(t, "%u", 1 + (unsigned)random_below(r, side ? 40 : 12));
  }
}

static void append_template(random_state *r, text *t, const char *template);

static void append_transforms(random_state *r, text *t) {
  static const char *const list[] = {
      "{\"name\": \"RandomResizedCrop\", \"size\": [%, %]}",
      "{\"name\": \"Resize\", \"size\": %, \"interpolation\": \"bicubic\"}",
      "{\"name\": \"CenterCrop\", \"size\": [%, %]}",
      "{\"name\": \"RandomCrop\", \"size\": [%, %], \"padding\": #, \"pad_if_needed\": true}",
      "{\"name\": \"RandomHorizontalFlip\", \"p\": 0.5}",
      "{\"name\": \"Pad\", \"padding\": #, \"fill\": #}",
      "{\"name\": \"RandomZoomOut\", \"side_range\": [1, #]}",
      "{\"name\": \"ScaleJitter\", \"target_size\": [%, %]}",
      "{\"name\": \"ColorJitter\", \"brightness\": 0.#, \"hue\": 0.1}",
      "{\"name\": \"GaussianBlur\", \"kernel_size\": #, \"sigma\": [0.1, #]}",
      "{\"name\": \"RandomRotation\", \"degrees\": #, \"expand\": true}",
      "{\"name\": \"RandomAffine\", \"degrees\": #, \"translate\": [0.#, 0.#]}",
      "{\"name\": \"RandomPerspective\", \"distortion_scale\": 0.#}",
      "{\"name\": \"RandAugment\", \"num_ops\": #, \"magnitude\": #}",
      "{\"name\": \"AugMix\", \"severity\": #, \"mixture_width\": #}",
      "{\"name\": \"TimmAugment\", \"config\": \"rand-m#-mstd0.5-inc1\"}",
      "{\"name\": \"JPEG\", \"quality\": [#, 9#]}",
      "{\"name\": \"RandomApply\", \"transforms\": [@], \"p\": 0.#}",
      "{\"name\": \"RandomChoice\", \"transforms\": [@, @]}",
      "{\"name\": \"RandomErasing\", \"p\": 0.#, \"value\": #}",
      "{\"name\": \"Cutout\", \"length\": #}",
      "{\"name\": \"FiveCrop\", \"size\": [%, %]}",
      "{\"name\": \"Normalize\", \"mean\": [0.#, 0.#, 0.#], \"std\": [0.#, 1, #]}",
      "{\"name\": \"CutMix\", \"num_classes\": #}",
      "{\"name\": \"Mixup\", \"mixup_alpha\": 0.#, \"num_classes\": #}",
      "{\"name\": #}"};
  append_template(r, t, list[random_below(r, sizeof list / sizeof list[0])]);
}

/* # is a number, % the side of an image, @ a transform, and & a number that files have. */
static void append_template(random_state *r, text *t, const char *template) {
  for (; *template != 0 && t->length < 3000; template ++) {
    if (*template == '#' || *template == '%') {
      append_value(r, t, *template == '%');
    } else if (*template == '@') {
      append_transforms(r, t);
    } else if (*template == '&') {
      append(t, "%u", (unsigned)random_below(r, 24));
    } else {
      append(t, "%c", *template);
    }
  }
}

/* Any of `parts` behind `first`, in braces. Bytes are changed if it names nothing to write to. */
text configuration(random_state *r, const char *first, const char *const *parts, size_t count,
                   bool harmless) {
  text t = {.length = 0};
  append(&t, "{");
  append_template(r, &t, first);
  for (size_t i = 0; i < count; i++) {
    if (!one_in(r, 8)) continue;
    append(&t, t.length > 1 ? ", " : "");
    append_template(r, &t, parts[i]);
  }
  append(&t, "}");
  for (uint64_t n = harmless && one_in(r, 25) ? 1 + random_below(r, 3) : 0; n > 0; n--) {
    t.bytes[random_below(r, t.length)] =
        (char)(one_in(r, 3) ? random_next(r) : (uint64_t) "{}[],\":\\0-"[random_below(r, 10)]);
  }
  if (harmless && one_in(r, 60)) t.length = random_below(r, t.length);
  return t;
}

text dataset_configuration(random_state *r) {
  static const char *const sources[] = {
      "\"path\": \"packed\"",
      "\"path\": \"packed\"",
      "\"path\": \"folder\"",
      "\"path\": \"made-&\"",
      "\"path\": \"folder/a/0\"",
      "\"paths\": [\"folder/a/0\", \"folder/b/1\", \"folder/none\"], \"labels\": [0, 1, 2]",
      "\"parts\": [{\"path\": \"packed\"}, {\"path\": \"folder\"}], \"classes\": []",
      "\"parts\": [{\"path\": \"made-&\"}, {\"path\": \"packed\"}]"};
  static const char *const more[] = {"\"backend\": \"mmap\"",
                                     "\"backend\": \"pread\"",
                                     "\"verify_crc\": true",
                                     "\"classes\": [#]",
                                     "\"limits\": {\"max_pixels\": #, \"max_scans\": #}",
                                     "\"limits\": {\"max_decoder_bytes\": #}"};
  return configuration(r, sources[random_below(r, COUNT(sources))], more, COUNT(more), true);
}

text loader_configuration(random_state *r) {
  static const char *const first[] = {
      "\"batch_size\": #, \"transform\": [{\"name\": \"Resize\", \"size\": [%, %]}]",
      "\"batch_size\": #, \"transform\": [@, {\"name\": \"CenterCrop\", \"size\": [%, %]}]",
      "\"batch_size\": #, \"dtype\": \"float16\", \"transform\": [{\"name\": "
      "\"RandomResizedCrop\", "
      "\"size\": [%, %]}, @]",
      "\"batch_size\": #, \"views\": [{\"transform\": [{\"name\": \"Resize\", \"size\": [%, %]}], "
      "\"repeat\": #}, {\"transform\": [{\"name\": \"CenterCrop\", \"size\": [9, 9]}]}]",
      "\"order\": \"submitted\", \"batch_size\": #, \"transform\": [{\"name\": \"Resize\", "
      "\"size\": "
      "[%, %]}]"};
  static const char *const more[] = {
      "\"shuffle\": true",
      "\"window\": #",
      "\"seed\": #",
      "\"drop_last\": true",
      "\"pad\": true",
      "\"num_threads\": 2",
      "\"nice\": #",
      "\"prefetch\": #",
      "\"read_ahead\": #",
      "\"rank\": &, \"world_size\": #",
      "\"on_error\": \"replace\"",
      "\"epoch\": #, \"position\": #",
      "\"layout\": \"NHWC\"",
      "\"mode\": \"fast\"",
      "\"dtype\": \"bfloat16\"",
      "\"sampler\": {\"kind\": \"subset\", \"first\": &, \"stride\": #, \"count\": #}",
      "\"sampler\": {\"kind\": \"class_balanced\", \"length\": #}",
      "\"sampler\": {\"kind\": \"repeated\", \"times\": #, \"length\": #}",
      "\"resolution\": {\"by\": \"epoch\", \"at\": [[0, %], [#, %]]}",
      "\"labels\": [{\"field\": \"boxes\", \"label\": {\"name\": \"Boxes\"}}]",
      "\"read_delay_ms\": &",
      "\"no such key\": #"};
  return configuration(r, first[random_below(r, COUNT(first))], more, COUNT(more), true);
}

text decode_configuration(random_state *r) {
  static const char *const first[] = {"\"transform\": [@]", "\"transform\": [@, @]",
                                      "\"transform\": []", "\"seed\": #"};
  static const char *const more[] = {"\"replay\": true",
                                     "\"samples\": #",
                                     "\"dtype\": \"float32\"",
                                     "\"layout\": \"NCHW\"",
                                     "\"mode\": \"fast\"",
                                     "\"view\": #",
                                     "\"sample\": #",
                                     "\"limits\": {\"max_pixels\": #}",
                                     "\"label\": {\"name\": \"Mask\"}, \"size\": [%, %]",
                                     "\"label\": {\"name\": \"Boxes\"}, \"size\": [%, %]"};
  return configuration(r, first[random_below(r, COUNT(first))], more, COUNT(more), true);
}

text task_configuration(random_state *r) {
  static const char *const first[] = {
      "\"transform\": [@]", "\"transform\": [{\"name\": \"RandomResizedCrop\", \"size\": %}]", ""};
  static const char *const more[] = {
      "\"dtype\": \"float32\"",
      "\"layout\": \"NCHW\"",
      "\"mode\": \"fast\"",
      "\"limits\": {\"max_pixels\": #}",
      "\"limits\": {\"max_record_bytes\": #}",
      "\"limits\": {\"max_block_bytes\": #, \"max_cached_bytes\": #}",
      "\"seed\": 1"};
  return configuration(r, first[random_below(r, COUNT(first))], more, COUNT(more), true);
}

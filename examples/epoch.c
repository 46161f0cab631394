/* epoch.c: one epoch of a dataset through the C ABI, a checksum a batch.
 *
 *   cc epoch.c -I<package> <package>/libheadrace.so -Wl,-rpath,<package> -o epoch
 *   ./epoch DATASET [BATCH_SIZE]
 *
 * <package> is where the Python package lies; it holds headrace.h and the library. The images
 * are cropped at random to 224 x 224, and the checksums are the same in every run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "headrace.h"

/* FNV-1a, 64 bits: short, and any changed byte changes it. */
static uint64_t checksum(const unsigned char *bytes, uint64_t length) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < length; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

static int report(const char *doing, const hr_error *error) {
  fprintf(stderr, "epoch: %s: %s (code %d)\n", doing, error->text, error->code);
  return EXIT_FAILURE;
}

/* A path may hold quotes and backslashes; JSON wants both escaped. */
static int quote(const char *text, char *out, size_t capacity) {
  size_t used = 0;
  for (; *text != 0; text++) {
    if (used + 3 > capacity) return -1;
    if (*text == '"' || *text == '\\') out[used++] = '\\';
    out[used++] = *text;
  }
  out[used] = 0;
  return 0;
}

static int print_batches(hr_handle loader) {
  hr_error error;
  hr_batch batch;
  int32_t code;
  /* A wait ends after half a second at the latest, so that a program can look around. */
  while ((code = hr_next(loader, 500, &batch, &error)) != HR_END) {
    if (code == HR_TIMEOUT) continue;
    if (code != HR_OK) return report("next batch", &error);
    const hr_field *images = &batch.fields[0];
    const int64_t *labels = batch.fields[1].data;
    printf("batch %" PRId64 ": %" PRId64 " samples, first label %" PRId64 ", %016" PRIx64 "\n",
           batch.step, batch.length, batch.length > 0 ? labels[0] : -1,
           checksum(images->data, images->bytes));
    if (hr_release(batch.batch, &error) != HR_OK) return report("release", &error);
  }
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  char path[4096], config[8192];
  hr_handle dataset, loader;
  hr_error error;

  if (argc < 2 || quote(argv[1], path, sizeof path) != 0) {
    fprintf(stderr, "usage: epoch DATASET [BATCH_SIZE]\n");
    return EXIT_FAILURE;
  }
  if (hr_abi_version() != HR_ABI_VERSION) {
    fprintf(stderr, "epoch: compiled for version %d of the ABI, the library has %d\n",
            HR_ABI_VERSION, hr_abi_version());
    return EXIT_FAILURE;
  }
  snprintf(config, sizeof config, "{\"path\": \"%s\"}", path);
  if (hr_dataset_open(config, strlen(config), &dataset, &error) != HR_OK)
    return report("open dataset", &error);

  snprintf(
      config, sizeof config,
      "{\"batch_size\": %d, \"shuffle\": true, \"seed\": 0, \"dtype\": \"uint8\", "
      "\"layout\": \"NHWC\", \"transform\": [{\"name\": \"RandomResizedCrop\", \"size\": 224}, "
      "{\"name\": \"RandomHorizontalFlip\"}]}",
      argc > 2 ? atoi(argv[2]) : 32);
  if (hr_loader_open(dataset, config, strlen(config), &loader, &error) != HR_OK)
    return report("open loader", &error);
  hr_close(dataset, NULL); /* the loader keeps what it needs */

  int status = print_batches(loader);
  hr_close(loader, NULL);
  return status;
}

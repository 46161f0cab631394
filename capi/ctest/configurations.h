/* configurations.h: JSON for the C ABI, right and wrong. */
#ifndef HEADRACE_CAPI_CTEST_CONFIGURATIONS_H
#define HEADRACE_CAPI_CTEST_CONFIGURATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "../../native/ctest/random.h"

typedef struct text {
  char bytes[4096];
  size_t length;
} text;

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* The text is cut where there is no room. */
void append(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An object of `first` and any of `parts`. These are templates: # is a number, % the side of an
 * image, @ a transform, & a number that files have. A harmless object, which names nothing to write
 * to, has bytes changed now and then. */
text configuration(random_state *r, const char *first, const char *const *parts, size_t count,
                   bool harmless);

/* Paths are those that calls.c makes. */
text dataset_configuration(random_state *r);
text loader_configuration(random_state *r);
text decode_configuration(random_state *r);
text task_configuration(random_state *r);

#endif

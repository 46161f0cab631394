/* watch.h: mappings of files whose pages may go away while they are read. */
#ifndef HEADRACE_MMAP_WATCH_H
#define HEADRACE_MMAP_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mapping that is watched. Of a page of it that the file no longer has, zeros are read, and no
 * SIGBUS is raised. */
typedef struct hr_watch hr_watch;

/* Watches a mapping, which is also written to or only read; NULL without memory. Calls of begin and
 * end are made one at a time. */
hr_watch *hr_watch_begin(const void *start, size_t length, bool written);
void hr_watch_end(hr_watch *watch); /* before the mapping goes */

/* Makes sure of the signal's handler, which others may have put theirs on top of: before what is
 * mapped is looked at. */
int hr_watch_arm(void);

/* Where the first page begins of which zeros were read, in bytes from the mapping's start;
 * INT64_MAX for none. */
const int64_t *hr_watch_lost(const hr_watch *watch);

#endif

/* watch.h: mappings of files whose pages may go away while they are read. */
#ifndef HEADRACE_MMAP_WATCH_H
#define HEADRACE_MMAP_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mapping that is watched. If the file no longer has one of its pages, zeros are read from that
 * page, and no SIGBUS is raised. */
typedef struct hr_watch hr_watch;

/* Watches a mapping; written says whether it is also written to. NULL if memory is short. Calls of
 * begin and end are made one at a time. */
hr_watch *hr_watch_begin(const void *start, size_t length, bool written);
void hr_watch_end(hr_watch *watch); /* before the mapping is removed */

/* Puts the signal's handler back on top, if others have put theirs on top of it. It is called
 * before mapped bytes are read. */
int hr_watch_arm(void);

/* Where the first page begins from which zeros were read, in bytes from the mapping's start;
 * INT64_MAX if there is none. */
const int64_t *hr_watch_lost(const hr_watch *watch);

#endif

/* header.h: libheadrace_header.so, which says what an image file is from its first bytes.
 *
 * Programs open an image for every sample, and Pillow takes some 60 us to read a header. This takes
 * five, in one call. It is a library of its own for processes that have no engine: a worker process
 * forked beside a Go runtime may not enter it (golang/go#15538), and this is C alone.
 *
 * Only what is certain is said: of everything else Pillow itself reads the header. A file whose
 * header is read here may still be damaged behind it, which decoding finds.
 */
#ifndef HEADRACE_HEADER_H
#define HEADRACE_HEADER_H

#include <stddef.h>
#include <stdint.h>

#define HRH_EXPORT __attribute__((visibility("default")))

/* Formats and modes; Pillow's names of them stand in python/headrace/_deferred/header.py. */
enum { HRH_DOUBTFUL = 0, HRH_JPEG = 1, HRH_PNG = 2, HRH_WEBP = 3, HRH_OTHER = 4 };
enum { HRH_L = 0, HRH_RGB = 1, HRH_P = 2, HRH_LA = 3, HRH_RGBA = 4 };

typedef struct {
  int64_t format,
      mode; /* as above; doubtful: Pillow has to look; other: BMP, GIF or TIFF, of which */
  int64_t width, height;    /* Pillow says mode and size, which are 0 here */
  uint64_t device, inode;   /* of a file: which it is, */
  int64_t size, changed_ns; /* and its last change */
  int64_t descriptor;       /* of a file that is open; -1: of none */
  int64_t behind;           /* of bytes in memory, as hrh_behind has it; -1: of a file */
} hrh_header;

/* Opens a regular file and reads its header. The descriptor is where its owner looks before this
 * returns: no exception of the owner's language comes between. Returns 0 where there is no such
 * file, or a doubtful one; none is open then. */
HRH_EXPORT int hrh_open(const char *path, hrh_header *out);

/* The header of encoded bytes in memory; what is said of a file is 0. */
HRH_EXPORT void hrh_read(const uint8_t *bytes, size_t length, hrh_header *out);

/* Where Pillow's reading of an open file's header ends: behind it, or of a WebP at the end of the
 * file. -1: Pillow has to open it. */
HRH_EXPORT int64_t hrh_behind(int descriptor);

/* 1 where the path leads to the file with these facts. */
HRH_EXPORT int hrh_is(const char *path, uint64_t device, uint64_t inode, int64_t size,
                      int64_t changed_ns);

/* As hrh_is, of a file that is open. It is closed then; where the path leads to another, it stays
 * open. */
HRH_EXPORT int hrh_settle(const char *path, hrh_header *opened);

/* Closes it, unless that was done before. */
HRH_EXPORT void hrh_close(hrh_header *opened);

#endif

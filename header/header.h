/* header.h: libheadrace_header.so, which says what an image file is from its first bytes.
 *
 * Programs open an image for every sample, and Pillow takes some 60 us to read a header. This takes
 * five, in one call. It is a library of its own for processes that have no engine: a worker process
 * that was forked beside a Go runtime may not enter it (golang/go#15538), and this is C alone.
 *
 * It only says what is certain. For everything else, Pillow itself reads the header. A file whose
 * header is read here may still be damaged behind it; decoding finds that.
 */
#ifndef HEADRACE_HEADER_H
#define HEADRACE_HEADER_H

#include <stddef.h>
#include <stdint.h>

#define HRH_EXPORT __attribute__((visibility("default")))

/* Formats and modes. Pillow's names for them are in python/headrace/_deferred/header.py. */
enum { HRH_DOUBTFUL = 0, HRH_JPEG = 1, HRH_PNG = 2, HRH_WEBP = 3, HRH_OTHER = 4 };
enum { HRH_L = 0, HRH_RGB = 1, HRH_P = 2, HRH_LA = 3, HRH_RGBA = 4 };

typedef struct {
  int64_t format,
      mode; /* as above; HRH_DOUBTFUL: Pillow has to look; HRH_OTHER: BMP, GIF or TIFF, */
  int64_t width, height;    /* whose mode and size are 0 here, and Pillow says them */
  uint64_t device, inode;   /* for a file: which file it is, */
  int64_t size, changed_ns; /* and its last change */
  int64_t descriptor;       /* of an open file; -1: no file is open */
  int64_t behind;           /* for bytes in memory: what hrh_behind says of a file; -1 for a file */
} hrh_header;

/* Opens a regular file and reads its header. The descriptor is stored where its owner looks before
 * this function returns, so no exception of the owner's language can come between. Returns 0 if
 * there is no such file or it is doubtful; then none is open. */
HRH_EXPORT int hrh_open(const char *path, hrh_header *out);

/* Reads the header of encoded bytes in memory. Members that describe a file are 0. */
HRH_EXPORT void hrh_read(const uint8_t *bytes, size_t length, hrh_header *out);

/* Where Pillow's reading of an open file's header ends: behind the header, or for a WebP at the end
 * of the file. -1: Pillow has to open the file. */
HRH_EXPORT int64_t hrh_behind(int descriptor);

/* 1 if the path leads to the file with these facts. */
HRH_EXPORT int hrh_is(const char *path, uint64_t device, uint64_t inode, int64_t size,
                      int64_t changed_ns);

/* As hrh_is, for an open file, which is then closed. If the path leads to another file, it stays
 * open. */
HRH_EXPORT int hrh_settle(const char *path, hrh_header *opened);

/* Closes the file, unless that was done before. */
HRH_EXPORT void hrh_close(hrh_header *opened);

#endif

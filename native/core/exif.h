/* exif.h: how an image has to be turned. */
#ifndef HEADRACE_CORE_EXIF_H
#define HEADRACE_CORE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation in the TIFF block of EXIF metadata: 1 to 8, or 0 if there is none or it is out of
 * range. */
uint8_t hrn_exif_orientation(const uint8_t *tiff, size_t length);

#endif

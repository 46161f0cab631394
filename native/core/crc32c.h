/* crc32c.h: the checksum of every record. */
#ifndef HEADRACE_CORE_CRC32C_H
#define HEADRACE_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `crc`, which is 0 at the start, over the bytes. */
uint32_t hrn_crc32c(uint32_t crc, const uint8_t *bytes, size_t length);

#endif

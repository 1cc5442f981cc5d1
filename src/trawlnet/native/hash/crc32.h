/* CRC-32 as zlib, gzip and the archive's blocks have it (IEEE 802.3, reflected). */
#ifndef TRAWLNET_CRC32_H
#define TRAWLNET_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is that of the bytes before, 0 if there are none. */
uint32_t crc32_ieee(uint32_t crc, const uint8_t *data, size_t len);
uint32_t crc32_portable(uint32_t crc, const uint8_t *data, size_t len);

#endif

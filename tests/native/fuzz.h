/* What the fuzz targets share: their driver, and how a broken invariant is told. */
#ifndef TRAWLNET_FUZZ_H
#define TRAWLNET_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* fuzz_driver.c */
void check(int holds, const char *what);
void fuzz_now(const uint8_t *data, size_t size); /* what to leave behind if this input breaks something */
extern unsigned allocations_left; /* the allocation that brings this to zero fails */

/* Each target has these: bytes that mean something in what it reads, and libFuzzer's entry point. */
extern const uint8_t FUZZ_TELLING[];
extern const size_t FUZZ_TELLING_SIZE;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

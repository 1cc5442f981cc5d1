/* One line of the PLC directory's numbered export, if it says the usual things in the usual way. */
#ifndef TRAWLNET_PLC_LINE_H
#define TRAWLNET_PLC_LINE_H

#include <stddef.h>
#include <stdint.h>

enum {
    LONGEST_OPERATION = 2048,
    LONGEST_ENDPOINT = 256 /* what was made of an endpoint is remembered, and strangers write them */
};

/* Some bytes of the line. */
typedef struct {
    const uint8_t *at;
    size_t len;
} span;

typedef struct {
    span did, cid, operation, prev, endpoint, handle, signing_key;
    uint64_t seq;    /* below 2^63 */
    int64_t time_us; /* since 1970 */
} plc_line;

/* 0 for a line that is not usual, whatever it is: the long way in Python reads it. */
int read_plc_line(plc_line *line, const uint8_t *text, size_t len);

#endif

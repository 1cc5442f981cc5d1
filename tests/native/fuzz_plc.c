/* Fuzz target of the PLC directory's lines; see fuzz_driver.c. An input is one line. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "line.h"

const uint8_t FUZZ_TELLING[] = {'"', '\\', '{', '}', '[', ']', ':', ',', '0', '1', '9', '-', 'T', 'Z', ' ', 0x1f, 0x7f, 0x80};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

static void check_span(span s, const uint8_t *line, size_t size)
{
    check(!s.at || (s.at >= line && s.len <= size && s.at - line <= (ptrdiff_t)(size - s.len)), "a text lies in its line");
    check(s.at || !s.len, "no text has no length");
}

static void check_line(const plc_line *found, const uint8_t *line, size_t size)
{
    const span spans[] = {found->did,      found->cid,    found->operation,  found->prev,
                          found->endpoint, found->handle, found->signing_key};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        check_span(spans[i], line, size);
    check(found->did.len && found->cid.len && found->endpoint.at && found->signing_key.at, "a usual line says all of it");
    check(found->operation.len <= LONGEST_OPERATION && found->endpoint.len <= LONGEST_ENDPOINT, "what is kept is bounded");
    check(found->operation.at[0] == '{' && found->operation.at[found->operation.len - 1] == '}', "an operation is an object");
    check(found->seq > 0 && found->seq <= INT64_MAX, "a number fits its column");
    check(found->time_us >= 0 && found->time_us < INT64_C(4102444800000000), "an instant lies between 1970 and 2099");
    check(found->time_us % 1000 == 0, "an instant has milliseconds");
}

/* The same line with other bytes behind it is the same line. */
static void check_alone(const plc_line *found, const uint8_t *line, size_t size)
{
    plc_line again;
    uint8_t *longer = malloc(size + 40);
    check(longer != NULL, "memory for a line");
    memcpy(longer, line, size);
    memset(longer + size, '"', 40);
    check(read_plc_line(&again, longer, size), "a line is usual wherever it lies");
    check(again.seq == found->seq && again.time_us == found->time_us, "its numbers are the same");
    check(again.operation.at - longer == found->operation.at - line, "its operation is in the same place");
    free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    plc_line found;
    fuzz_now(data, size);
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    if (read_plc_line(&found, copy, size)) {
        check_line(&found, copy, size);
        check_alone(&found, copy, size);
    }
    free(copy);
    return 0;
}

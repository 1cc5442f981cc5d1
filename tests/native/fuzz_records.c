/* Fuzz target of counting records; see fuzz_driver.c. An input is read as the entries of a collection, and as one record. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "recordcounts.h"

/* Bytes that mean something in JSON, in UTF-8 or as a length. */
const uint8_t FUZZ_TELLING[] = {'"', '\\', '{', '}', '[',  ']',  ':',  ',',  ' ',  '\n', '0',  '1',  '9',  'e',
                                '.', '-',  '+', 'u', 't',  'f',  'n',  'd',  '/',  0x00, 0x01, 0x02, 0x1f, 0x7f,
                                0x80, 0xbf, 0xc2, 0xe0, 0xe3, 0xed, 0xf0, 0xf4, 0xff};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

static uint64_t sum(const uint64_t *counts, size_t size)
{
    uint64_t total = 0;
    for (size_t i = 0; i < size; i++)
        total += counts[i];
    return total;
}

/* The verdict on a record must not depend on what lies behind it, nor on how near the end of the data is. */
static void check_alone(const uint8_t *json, size_t size, const uint8_t *limit)
{
    record_fields there, here;
    uint8_t *copy = malloc(size ? size : 1);
    check(copy != NULL, "memory for a record");
    memcpy(copy, json, size);
    int sound = json_record(json, json + size, limit, &there);
    check(json_record(copy, copy + size, copy + size, &here) == sound, "a record is sound wherever it lies");
    if (sound) {
        check(!there.created == !here.created && !there.langs == !here.langs, "its fields are found");
        check(!there.created || there.created - json == here.created - copy, "its date is in the same place");
        check(!there.langs || there.langs - json == here.langs - copy, "its languages are in the same place");
    }
    free(copy);
}

static void check_entries(const uint8_t *entries, size_t size, uint64_t count)
{
    static record_counts counts;
    static const record_counts none;
    /* Looking at the tables takes longer than filling them: one input in eight is enough. */
    int looked_at = (size ? entries[size / 3] : 0) % 8 == 0;
    if (looked_at)
        memset(&counts, 0, sizeof counts);
    int whole = count_records(&counts, entries, size, count);
    if (!looked_at)
        return;
    if (!whole) {
        check(memcmp(&counts, &none, sizeof counts) == 0, "what is cut adds nothing");
        return;
    }
    check(sum(counts.months, MONTHS) + counts.undated == count, "every record has a month or none");
    check(sum(counts.languages, LANGUAGES) <= count * LANGUAGES_OF_A_RECORD, "languages are bounded");
}

/* The input as the one record of a collection, with `behind` bytes of it once more behind. */
static void run_as_record(const uint8_t *data, size_t size, size_t behind)
{
    enum { FRAME = 6 };
    uint8_t *entries = malloc(FRAME + size + behind);
    check(entries != NULL, "memory for the input");
    for (size_t i = 0; i < FRAME; i++)
        entries[i] = i < 2 ? 0 : (uint8_t)(size >> 8 * (i - 2));
    memcpy(entries + FRAME, data, size);
    memcpy(entries + FRAME + size, data, behind);
    check_entries(entries, FRAME + size + behind, 1);
    check_alone(entries + FRAME, size, entries + FRAME + size + behind);
    free(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    fuzz_now(data, size);
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    check_entries(copy, size, size ? data[size - 1] % 8u : 0);
    free(copy);
    run_as_record(data, size, 0);
    run_as_record(data, size, size ? data[size / 2] % (size < 40 ? size : 40) : 0);
    return 0;
}

/* What a report counts of unpacked records: months and languages, in tables that no record can make grow. */
#ifndef TRAWLNET_RECORDCOUNTS_H
#define TRAWLNET_RECORDCOUNTS_H

#include <stddef.h>
#include <stdint.h>

enum {
    FIRST_YEAR = 1900,
    YEARS = 200,
    MONTHS = YEARS * 12,
    LETTERS = 26,
    LANGUAGES = LETTERS * LETTERS * (LETTERS + 1), /* two letters, and perhaps a third */
    LANGUAGES_OF_A_RECORD = 16,
    DEEPEST_JSON = 1024                            /* objects and arrays in each other, as the twin's parser has it */
};

typedef struct {
    uint64_t months[MONTHS];
    uint64_t undated;
    uint64_t languages[LANGUAGES];
} record_counts;

/* Adds `count` records, each as u16 length and key, u32 length and JSON. Returns 0, and has added nothing, when the data
 * end before. */
int count_records(record_counts *counts, const uint8_t *entries, size_t len, uint64_t count);

/* jsonrecord.c */

/* Where the values of the fields we look for begin; NULL where there is none. */
typedef struct {
    const uint8_t *created;
    const uint8_t *langs;
} record_fields;

/* Whether `at` to `end` is one JSON object and nothing else. Loads may reach to `limit`, where the entries end. */
int json_record(const uint8_t *at, const uint8_t *end, const uint8_t *limit, record_fields *fields);

/* These two read JSON that was found sound. */

/* The next character of a string, an escape counting as one and a byte beyond ASCII as itself; -1 at the end of it. */
int json_next_char(const uint8_t **at);

/* Behind the value at `at`. */
const uint8_t *json_behind(const uint8_t *at);

#endif

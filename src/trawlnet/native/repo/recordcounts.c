/* From unpacked records to the months and languages they name. */
#include "recordcounts.h"

static inline size_t get_u16(const uint8_t *at) { return at[0] | (size_t)at[1] << 8; }

static inline size_t get_u32(const uint8_t *at) { return get_u16(at) | get_u16(at + 2) << 16; }

enum { KEY_LENGTH = 2, JSON_LENGTH = 4 };

/* The JSON of the entry at `*at`, which moves behind it; or NULL if it is not whole. */
static inline const uint8_t *next_entry(const uint8_t **at, const uint8_t *limit)
{
    if (limit - *at < KEY_LENGTH)
        return NULL;
    size_t key = get_u16(*at), left = (size_t)(limit - *at) - KEY_LENGTH;
    if (left < key + JSON_LENGTH)
        return NULL;
    const uint8_t *length = *at + KEY_LENGTH + key;
    size_t json = get_u32(length);
    if (left - key - JSON_LENGTH < json)
        return NULL;
    *at = length + JSON_LENGTH + json;
    return length + JSON_LENGTH;
}

/* What follows reads a text up to its closing quote, and not beyond: nothing is looked at behind a mismatch. */

static inline int digits(const uint8_t *text, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + text[i] - '0';
    }
    return value;
}

static inline int ends_word(uint8_t c) { return c == '-' || c == '"'; }

/* The number of the month that a date begins with, or -1. */
static inline int month_in(const uint8_t *text)
{
    int year = digits(text, 4);
    if (year < FIRST_YEAR || year >= FIRST_YEAR + YEARS || text[4] != '-')
        return -1;
    int month = digits(text + 5, 2);
    return month >= 1 && month <= 12 && ends_word(text[7]) ? (year - FIRST_YEAR) * 12 + month - 1 : -1;
}

/* From 0 to 25 for a letter of either case, else -1. */
static inline int letter(uint8_t c)
{
    int place = (c | 0x20) - 'a';
    return place >= 0 && place < LETTERS ? place : -1;
}

/* The number of the language that a tag begins with, or -1. */
static inline int language_in(const uint8_t *text)
{
    int first = letter(text[0]), second = first < 0 ? -1 : letter(text[1]);
    if (second < 0)
        return -1;
    int third = letter(text[2]);
    return ends_word(text[third < 0 ? 2 : 3]) ? (first * LETTERS + second) * (LETTERS + 1) + third + 1 : -1;
}

/* The same of a string that may have escapes. Few have, so they are undone only when the text as it stands says nothing. */
static inline int read_string(const uint8_t *string, int (*read)(const uint8_t *))
{
    enum { ENOUGH = 8 };
    uint8_t spelt[ENOUGH + 1];
    const uint8_t *at = string + 1;
    int found = read(at), c, len = 0;
    if (found >= 0)
        return found;
    while (len < ENOUGH && (c = json_next_char(&at)) >= 0)
        spelt[len++] = (uint8_t)(c == '"' || c > 0x7f ? 0 : c); /* a quote that is escaped ends nothing */
    spelt[len] = '"';
    return read(spelt);
}

static const uint8_t *skip_blanks(const uint8_t *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

static void count_languages(record_counts *counts, const uint8_t *array, uint64_t step)
{
    const uint8_t *at = skip_blanks(array + 1);
    for (int i = 0; i < LANGUAGES_OF_A_RECORD && *at != ']'; i++) {
        int language = *at == '"' ? read_string(at, language_in) : -1;
        if (language >= 0)
            counts->languages[language] += step;
        at = skip_blanks(json_behind(at));
        if (*at == ',')
            at = skip_blanks(at + 1);
    }
}

static inline void count_record(record_counts *counts, const record_fields *fields, uint64_t step)
{
    const uint8_t *date = fields->created;
    int month = date && *date == '"' ? read_string(date, month_in) : -1;
    *(month < 0 ? &counts->undated : &counts->months[month]) += step;
    if (fields->langs && *fields->langs == '[')
        count_languages(counts, fields->langs, step);
}

/* Adds `step` for each of `count` records, or of as many as are whole; how many that were. */
static uint64_t walk(record_counts *counts, const uint8_t *at, const uint8_t *limit, uint64_t count, uint64_t step)
{
    for (uint64_t done = 0; done < count; done++) {
        record_fields fields;
        const uint8_t *json = next_entry(&at, limit);
        if (!json)
            return done;
        if (json_record(json, at, limit, &fields))
            count_record(counts, &fields, step);
        else
            counts->undated += step;
    }
    return count;
}

int count_records(record_counts *counts, const uint8_t *entries, size_t len, uint64_t count)
{
    uint64_t done = walk(counts, entries, entries + len, count, 1);
    if (done == count)
        return 1;
    /* Taken back rather than looked over before: damage is rare. */
    walk(counts, entries, entries + len, done, (uint64_t)-1);
    return 0;
}

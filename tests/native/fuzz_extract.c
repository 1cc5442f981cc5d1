/* Fuzz target of the extraction; see fuzz_driver.c. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "repoblock.h"

/* Bytes that mean something in CBOR, CAR or UTF-8. */
const uint8_t FUZZ_TELLING[] = {0x00, 0x01, 0x12, 0x20, 0x2a, 0x2f, 0x40, 0x58, 0x5f, 0x60, 0x61, 0x71, 0x7f, 0x80,
                                0x81, 0x9f, 0xa0, 0xa1, 0xbf, 0xc0, 0xd8, 0xed, 0xf4, 0xf6, 0xf9, 0xfb, 0xfe, 0xff,
                                0x18, 0x1b, 0x38, 0x3b, 0x78, 0x7b, 0x98, 0x9b, 0xb8, 0xbb, 0x22, 0x5c};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

/* What must hold of every accepted repo: runs tile the output, and entries tile their run. */
static void check_output(const repo *r)
{
    uint64_t records = 0;
    size_t at = 0;
    for (size_t i = 0; i < r->collection_count; i++) {
        const collection *c = &r->collections[i];
        check(c->start == at, "runs are contiguous");
        for (uint32_t n = 0; n < c->records; n++) {
            check(c->end - at >= 6, "an entry fits its run");
            size_t rkey = r->out.data[at] | (size_t)r->out.data[at + 1] << 8;
            check(rkey >= 1 && rkey <= 512 && c->end - at >= rkey + 6, "a record key fits");
            const uint8_t *p = r->out.data + at + 2 + rkey;
            size_t json = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
            check(json >= 2 && json <= c->end - at - rkey - 6, "the JSON fits");
            check(p[4] == '{' && p[3 + json] == '}', "the JSON is an object");
            at += rkey + 6 + json;
        }
        check(at == c->end, "entries tile their run");
        records += c->records;
    }
    check(at == r->out.len && records == r->records, "runs tile the output");
    check(r->cost <= r->options.memory_limit, "the limit is kept");
}

/* `choice` picks the options, one bit each; most of the time those under which most is read. */
static void run_once(const uint8_t *data, size_t size, unsigned choice)
{
    static const pattern some[] = {{"app.bsky.*", 10}, {"*.odd", 5}};
    repo_options options = {
        .verify_hashes = choice % 16 == 1,
        .keep_cids = choice >> 4 & 1,
        .proof = choice >> 3 & 1,
        .max_record = choice >> 5 & 3 ? 1 << 20 : 150,
        .max_json = choice >> 7 & 3 ? 2 << 20 : 120,
        .memory_limit = choice >> 9 & 3 ? 64 << 20 : choice >> 11,
        .patterns = some,
        .pattern_count = choice >> 4 & 3 ? 0 : 2,
        .seed = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0x2545f4914f6cdd1d},
    };
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    repo r = {0};
    scratch mem = {0};
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    allocations_left = choice >> 17 & 7 ? 0 : 1 + (choice >> 20 & 15);
    repo_error error = repo_extract(&r, copy, size, &options, &mem);
    check(error != REPO_NO_MEMORY || allocations_left == 0, "memory runs out only when it does");
    allocations_left = 0;
    if (error == REPO_OK)
        check_output(&r);
    repo_free(&r);
    scratch_free(&mem);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t choice = (uint32_t)size;
    fuzz_now(data, size);
    for (size_t i = 0; i < size; i += 1 + size / 16)
        choice = (choice ^ data[i]) * 0x01000193;
    run_once(data, size, choice ^ choice >> 15);
    return 0;
}

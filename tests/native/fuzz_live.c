/* Fuzz target of the firehose's frames; see fuzz_driver.c. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "live.h"

/* Bytes that mean something in CBOR, CAR or a node of the tree. */
const uint8_t FUZZ_TELLING[] = {0x00, 0x01, 0x12, 0x18, 0x20, 0x25, 0x2a, 0x2f, 0x40, 0x58, 0x60, 0x61, 0x65, 0x6b,
                                0x6c, 0x70, 0x71, 0x74, 0x76, 0x7f, 0x80, 0x81, 0x82, 0x9b, 0xa0, 0xa2, 0xa4, 0xbb,
                                0xd8, 0xf4, 0xf5, 0xf6, 0xff};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

static const uint64_t SEED[4] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0x2545f4914f6cdd1d};
static const int64_t NOW_US = 1767225600000000;

/* What must hold of every commit that is believed. */
static void check_commit(const live *l)
{
    const commit_fields *f = &l->fields;
    check(l->op_count <= MAX_OPS && f->blocks.len <= MAX_BLOCKS, "the limits are kept");
    check(l->key_bytes <= MAX_KEYS, "the limit of keys is kept");
    for (size_t i = 0; i < l->op_count; i++) {
        const op *o = &l->ops[i];
        check(!o->record == (o->action == OP_DELETE), "a record is there unless it was deleted");
        if (o->record)
            check(o->record->start + o->record->len <= f->blocks.len, "a record lies in its CAR");
    }
    if (f->prev_data && l->is_inverted)
        check(memcmp(l->before, f->prev_data, DIGEST) == 0, "the ops lead back to prevData");
}

static refusal run(live *l, live_memory *mem, const uint8_t *payload, size_t size, int skips_hashes)
{
    memset(l, 0, sizeof *l);
    l->mem = mem;
    l->skips_hashes = skips_hashes;
    return live_check(l, payload, size, NOW_US, SEED);
}

static void check_payload(const uint8_t *payload, size_t size, unsigned choice)
{
    static live first, second;
    live_memory *mem = calloc(1, sizeof *mem);
    int skips_hashes = choice % 4 != 0;
    check(mem != NULL, "memory for the memory");
    allocations_left = choice >> 4 & 7 ? 0 : 1 + (choice >> 7 & 31);
    refusal why = run(&first, mem, payload, size, skips_hashes);
    check(why != LIVE_NO_MEMORY || allocations_left == 0, "memory runs out only when it does");
    check(why == LIVE_NO_MEMORY || why < LIVE_BAD_SIGNATURE, "a refusal has a word");
    allocations_left = 0;
    if (why == LIVE_OK)
        check_commit(&first);
    /* What the first run has left behind does not change the second. */
    refusal again = run(&second, mem, payload, size, skips_hashes);
    check(why == LIVE_NO_MEMORY || again == why, "the verdict stays");
    if (why == LIVE_OK)
        check(memcmp(first.before, second.before, DIGEST) == 0, "the root stays");
    live_memory_free(mem);
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    frame_head found = {0};
    uint32_t choice = (uint32_t)size;
    fuzz_now(data, size);
    for (size_t i = 0; i < size; i += 1 + size / 16)
        choice = (choice ^ data[i]) * 0x01000193;
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    if (frame_read(copy, size, &found) == LIVE_OK)
        check_payload(found.payload, (size_t)(copy + size - found.payload), choice ^ choice >> 15);
    free(copy);
    return 0;
}

/* All that can be said of a commit without its account's past, in the order of the protocol's list. */
#include "live.h"

#include <stdlib.h>

static refusal load_blocks(live *l, const uint64_t seed[4])
{
    repo *r = &l->r;
    r->mem = &l->mem->car;
    r->car = l->fields.blocks.at;
    r->car_len = l->fields.blocks.len;
    r->options.verify_hashes = !l->skips_hashes;
    r->options.memory_limit = SIZE_MAX; /* MAX_BLOCKS bounds it */
    memcpy(r->options.seed, seed, sizeof r->options.seed);
    switch (car_load(r)) {
    case REPO_OK: return LIVE_OK;
    case REPO_NO_MEMORY: return LIVE_NO_MEMORY;
    case REPO_HASH_MISMATCH: return LIVE_HASH_MISMATCH;
    default: return LIVE_BAD_CAR;
    }
}

static refusal load_commit(live *l)
{
    repo *r = &l->r;
    if (memcmp(r->root, l->fields.commit, DIGEST) != 0)
        return LIVE_WRONG_ROOT;
    r->unsigned_commit = l->mem->unsigned_commit;
    repo_error error = commit_load(r);
    l->mem->unsigned_commit = r->unsigned_commit;
    switch (error) {
    case REPO_OK: break;
    case REPO_NO_MEMORY: return LIVE_NO_MEMORY;
    case REPO_MISSING_BLOCK: return LIVE_MISSING_COMMIT;
    default: return LIVE_BAD_COMMIT;
    }
    if (compare_texts((text){r->did, r->did_len}, l->fields.did) != 0)
        return LIVE_WRONG_DID;
    return compare_texts((text){r->rev, r->rev_len}, l->fields.rev) == 0 ? LIVE_OK : LIVE_WRONG_REV;
}

static refusal find_records(live *l)
{
    for (size_t i = 0; i < l->op_count; i++) {
        op *o = &l->ops[i];
        if (!o->cid)
            continue;
        o->record = car_find(&l->r, o->cid);
        if (!o->record)
            return LIVE_MISSING_RECORD;
        if (o->record->len > MAX_RECORD)
            return LIVE_LARGE_RECORD;
    }
    return LIVE_OK;
}

static refusal invert(live *l)
{
    live_memory *mem = l->mem;
    mem->opened.count = mem->line.count = 0;
    mem->key_used = 0;
    refusal why = tree_take_back(l);
    if (why || !l->is_inverted)
        return why;
    why = tree_rebuild(l);
    if (!why && l->fields.prev_data && memcmp(l->before, l->fields.prev_data, DIGEST) != 0)
        why = LIVE_WRONG_PREV_DATA;
    return why;
}

/* All but the first chunk goes back: a frame that needs more is rare. */
static void free_keys(live_memory *mem, chunk *until)
{
    while (mem->keys != until) {
        chunk *next = mem->keys->next;
        free(mem->keys);
        mem->keys = next;
    }
}

static chunk *first_chunk(const live_memory *mem)
{
    chunk *one = mem->keys;
    while (one && one->next)
        one = one->next;
    return one;
}

refusal live_check(live *l, const uint8_t *payload, size_t len, int64_t now_us, const uint64_t seed[4])
{
    refusal why = fields_read(payload, len, &l->fields);
    if (!why)
        why = fields_check(&l->fields, now_us);
    if (!why)
        why = ops_read(l);
    if (!why)
        why = load_blocks(l, seed);
    if (!why)
        why = load_commit(l);
    if (!why)
        why = find_records(l);
    if (!why)
        why = invert(l);
    free_keys(l->mem, first_chunk(l->mem));
    return why;
}

size_t live_memory_size(const live_memory *mem)
{
    size_t size = scratch_size(&mem->car) + mem->unsigned_commit.cap;
    size += (mem->opened.cap + mem->line.cap + mem->to_come.cap) * sizeof(item);
    return size + tree_size(&mem->tree);
}

void live_memory_free(live_memory *mem)
{
    scratch_free(&mem->car);
    free(mem->unsigned_commit.data);
    free(mem->opened.at);
    free(mem->line.at);
    free(mem->to_come.at);
    free_keys(mem, NULL);
    tree_free(&mem->tree);
    memset(mem, 0, sizeof *mem);
}

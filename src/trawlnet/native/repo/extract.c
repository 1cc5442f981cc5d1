/* The whole way from CAR to collection buffers, and the accounts that bound it. */
#include "repoblock.h"

#include <stdlib.h>

repo_error repo_fail(repo *r, repo_error kind, const char *detail, const uint8_t *at)
{
    r->detail = detail;
    r->place = (size_t)(at - r->car);
    return kind;
}

/* Counts what has been kept, not what malloc rounded it to, so that the plain twin stops at the same byte. */
repo_error repo_charge(repo *r, size_t bytes, const uint8_t *at)
{
    if (bytes > r->options.memory_limit - r->cost)
        return repo_fail(r, REPO_OVER_LIMIT, "the memory limit is reached", at);
    r->cost += bytes;
    return REPO_OK;
}

int buffer_grow(buffer *b, size_t extra)
{
    if (extra > SIZE_MAX / 2 - b->len)
        return 0;
    size_t cap = b->len + extra;
    if (cap < b->cap + b->cap / 2)
        cap = b->cap + b->cap / 2;
    uint8_t *data = realloc(b->data, cap);
    if (!data)
        return 0;
    b->data = data;
    b->cap = cap;
    return 1;
}

/* Makes room in `*(T **)array` for one more than `*cap` items of its type, or for `least`. */
int grow(void *array, size_t *cap, size_t least, size_t item)
{
    void *old;
    size_t wanted = *cap * 2 > least ? *cap * 2 : least;
    if (wanted > SIZE_MAX / 2 / item)
        return 0;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, wanted * item);
    if (!grown)
        return 0;
    memcpy(array, &grown, sizeof grown);
    *cap = wanted;
    return 1;
}

/* `*` stands for any run of characters, everything else for itself. */
int pattern_matches(const pattern *p, const char *name, size_t len)
{
    size_t at = 0, i = 0, star = SIZE_MAX, resume = 0;
    while (i < len) {
        if (at < p->len && p->text[at] == '*') {
            star = at++;
            resume = i;
        } else if (at < p->len && p->text[at] == name[i]) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = ++resume;
        } else {
            return 0;
        }
    }
    while (at < p->len && p->text[at] == '*')
        at++;
    return at == p->len;
}

/* `r` comes zeroed, or with only an output buffer to fill. */
repo_error repo_extract(repo *r, const uint8_t *car, size_t len, const repo_options *options, scratch *mem)
{
    r->mem = mem;
    r->car = car;
    r->car_len = len;
    r->options = *options;
    repo_error error = car_load(r);
    if (!error)
        error = commit_load(r);
    if (!error)
        error = mst_walk(r);
    return error;
}

void repo_free(repo *r)
{
    free(r->collections);
    free(r->names.data);
    free(r->out.data);
    free(r->unsigned_commit.data);
    free(r->sums.data);
    free(r->exceptions.data);
    memset(r, 0, sizeof *r);
}

size_t scratch_size(const scratch *mem)
{
    return mem->block_cap * sizeof *mem->blocks + mem->slot_cap * sizeof *mem->slots
         + mem->entry_cap * sizeof *mem->entries + mem->key_cap * sizeof *mem->keys
         + mem->mark_cap * sizeof *mem->marks;
}

void scratch_free(scratch *mem)
{
    free(mem->blocks);
    free(mem->slots);
    free(mem->entries);
    free(mem->keys);
    free(mem->marks);
    memset(mem, 0, sizeof *mem);
}

/* What proving a repository takes, noted while its records are read. */
#include "proof.h"

#include <stdlib.h>

static void put_number(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Room for an exception of so many bytes behind its kind and count, which are written; NULL, and `*error`, if it is
 * not to be had. */
static uint8_t *except(repo *r, exception_kind kind, size_t len, const uint8_t *at, repo_error *error)
{
    enum { HEAD = 5 };
    buffer *out = &r->exceptions;
    *error = repo_charge(r, HEAD + len, at);
    if (*error)
        return NULL;
    if (!buffer_reserve(out, HEAD + len)) {
        *error = REPO_NO_MEMORY;
        return NULL;
    }
    uint8_t *to = out->data + out->len;
    to[0] = (uint8_t)kind;
    put_number(to + 1, r->since_exception, 4);
    out->len += HEAD + len;
    r->since_exception = 0;
    return to + HEAD;
}

static repo_error except_bytes(repo *r, exception_kind kind, const uint8_t *bytes, size_t len)
{
    repo_error error;
    uint8_t *to = except(r, kind, 4 + len, bytes, &error);
    if (!to)
        return error;
    put_number(to, len, 4);
    if (len)
        memcpy(to + 4, bytes, len);
    return REPO_OK;
}

static uint8_t *put_key(uint8_t *to, const char *name)
{
    size_t len = strlen(name);
    *to++ = (uint8_t)(0x60 + len);
    memcpy(to, name, len);
    return to + len;
}

static uint8_t *put_text(uint8_t *to, text t)
{
    if (t.len > 0xff) {
        *to++ = 0x79;
        *to++ = (uint8_t)(t.len >> 8);
    } else if (t.len > 23) {
        *to++ = 0x78;
    }
    *to++ = (uint8_t)(t.len > 23 ? t.len : 0x60 + t.len);
    memcpy(to, t.at, t.len);
    return to + t.len;
}

/* The six fields, in the only order and form that DAG-CBOR has for them. */
size_t usual_commit(uint8_t *start, text did, text rev, const uint8_t signature[SIGNATURE], const uint8_t root[DIGEST])
{
    static const uint8_t LINK[] = {0xd8, 0x2a, 0x58, CID_SIZE + 1, 0, 0x01, 0x71, 0x12, 0x20};
    uint8_t *to = start;
    *to++ = 0xa6;
    to = put_text(put_key(to, "did"), did);
    to = put_text(put_key(to, "rev"), rev);
    to = put_key(to, "sig");
    *to++ = 0x58;
    *to++ = SIGNATURE;
    memcpy(to, signature, SIGNATURE);
    to = put_key(to + SIGNATURE, "data");
    memcpy(to, LINK, sizeof LINK);
    memcpy(to + sizeof LINK, root, DIGEST);
    to = put_key(to + sizeof LINK + DIGEST, "prev");
    *to++ = 0xf6;
    to = put_key(to, "version");
    *to++ = 3;
    return (size_t)(to - start);
}

repo_error proof_commit(repo *r, const uint8_t *commit, size_t len)
{
    uint8_t usual[COMMIT_ROOM];
    text did = {r->did, r->did_len}, rev = {r->rev, r->rev_len};
    size_t size = usual_commit(usual, did, rev, r->signature, r->data_root);
    if (size == len && memcmp(usual, commit, len) == 0)
        return REPO_OK;
    return except_bytes(r, EXCEPT_COMMIT, commit, len);
}

static repo_error end_group(repo *r)
{
    if (!buffer_reserve(&r->sums, SUMS_BYTES))
        return REPO_NO_MEMORY;
    put_number(r->sums.data + r->sums.len, reduced(r->sum), 8);
    put_number(r->sums.data + r->sums.len + 8, reduced(r->weighted), 8);
    r->sums.len += SUMS_BYTES;
    r->sum = r->weighted = 0;
    return REPO_OK;
}

repo_error proof_seldom(repo *r, const block *b)
{
    repo_error error = r->records % GROUP ? REPO_OK : end_group(r);
    if (!error && b->odd)
        return except_bytes(r, EXCEPT_RECORD, r->car + b->start, b->len);
    r->since_exception++;
    return error;
}

repo_error proof_left_out(repo *r, const leaf *l)
{
    repo_error error;
    const uint8_t *at = l->record ? r->car + l->record->start : r->car;
    if (l->cid_len >= LONGEST_LEFT_OUT)
        r->odd_tree = 1;
    uint8_t *to = except(r, EXCEPT_LEFT_OUT, 3 + l->len + l->cid_len, at, &error);
    if (!to)
        return error;
    put_number(to, l->len, 2);
    memcpy(to + 2, l->key, l->len);
    to += 2 + l->len;
    *to++ = (uint8_t)l->cid_len;
    if (l->cid_len)
        memcpy(to, l->cid, l->cid_len);
    return REPO_OK;
}

/* All records below the node were filtered out: its digest stands for them. Those that were dropped are named, for they
 * are few, and whoever follows the repository has to know them. */
repo_error proof_end(repo *r, const proof_mark *mark, int layer, const uint8_t digest[DIGEST])
{
    repo_error error;
    if (r->told != mark->told || r->exceptions.len == mark->exceptions)
        return REPO_OK;
    r->cost -= r->exceptions.len - mark->exceptions;
    r->exceptions.len = mark->exceptions;
    r->since_exception = mark->since_exception;
    uint8_t *to = except(r, EXCEPT_SUBTREE, 1 + DIGEST, digest, &error);
    if (!to)
        return error;
    *to = (uint8_t)layer;
    memcpy(to + 1, digest, DIGEST);
    return REPO_OK;
}

static repo_error keep_nodes(repo *r)
{
    const block *root = car_find(r, r->data_root);
    repo_error error = except_bytes(r, EXCEPT_NODE, r->car + root->start, root->len);
    for (size_t i = 0; !error && i < r->block_count; i++) {
        const block *b = &r->mem->blocks[i];
        if (b->opened && b != root)
            error = except_bytes(r, EXCEPT_NODE, r->car + b->start, b->len);
    }
    return error;
}

repo_error proof_finish(repo *r)
{
    repo_error error = r->records % GROUP ? end_group(r) : REPO_OK;
    return error || !r->odd_tree ? error : keep_nodes(r);
}

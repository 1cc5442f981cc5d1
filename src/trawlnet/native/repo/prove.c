/* Records are encoded a batch at a time, so that they can be hashed side by side, and handed to the tree in order. */
#include "prove.h"

#include <stdlib.h>

#include "json_cbor.h"

enum { BATCH = 128, BATCH_BYTES = 1 << 20 };

/* One leaf of the tree, or a subtree that was left out; texts as offsets, for their buffer may move. */
typedef struct {
    enum { RECORD, LEFT_OUT, SUBTREE } kind;
    int layer;           /* of a subtree */
    size_t key, key_len; /* in batch.keys */
    size_t data, len;    /* CBOR in batch.data; of a record that was left out its CID, of a subtree its digest */
} item;

typedef struct {
    proof_result *p;
    tree tree;
    scratch mem;
    repo odd;            /* only what reading a record's own bytes takes */
    item items[BATCH];
    size_t count;
    buffer keys, data, json;
    buffer last;         /* key before this one */
    uint64_t kept;       /* records that are read */
    uint64_t next;       /* record at which the next exception stands; UINT64_MAX: none */
    cursor exceptions;
    unsigned __int128 sum, weighted;
    int wants_digests, wants_car;
} proving;

static int fail(proving *v, const char *what)
{
    if (!v->p->wrong)
        v->p->wrong = what;
    return 0;
}

static int fail_memory(proving *v)
{
    v->p->no_memory = 1;
    return fail(v, "no memory");
}

static int append(proving *v, buffer *b, const uint8_t *data, size_t len)
{
    if (!buffer_reserve(b, len))
        return fail_memory(v);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    return 1;
}

static int append_number(proving *v, buffer *b, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    return append(v, b, bytes, sizeof bytes);
}

static int end_group(proving *v)
{
    if (!append_number(v, &v->p->sums, reduced(v->sum)) || !append_number(v, &v->p->sums, reduced(v->weighted)))
        return 0;
    v->sum = v->weighted = 0;
    return 1;
}

static int settle_record(proving *v, const item *it, const uint8_t digest[DIGEST])
{
    proof_result *p = v->p;
    uint64_t number = digest_number(digest), place = p->records++ % GROUP + 1;
    v->sum += number;
    v->weighted += (unsigned __int128)number * place;
    if (place == GROUP && !end_group(v))
        return 0;
    if (v->wants_digests && !append(v, &p->digests, digest, DIGEST))
        return 0;
    if (v->wants_car && !car_frame(&p->car, digest, v->data.data + it->data, it->len))
        return fail_memory(v);
    return 1;
}

static int of_tree(proving *v, int holds)
{
    if (holds)
        return 1;
    return v->tree.no_memory ? fail_memory(v) : fail(v, v->tree.wrong);
}

static int settle_item(proving *v, const item *it, const hash_job *key, const hash_job *data)
{
    uint8_t cid[CID_SIZE];
    const uint8_t *name = v->keys.data + it->key, *bytes = v->data.data + it->data;
    if (it->kind == SUBTREE)
        return of_tree(v, tree_add_subtree(&v->tree, it->layer, bytes));
    int layer = digest_layer(key->digest);
    if (it->kind == LEFT_OUT)
        return of_tree(v, tree_add(&v->tree, layer, name, it->key_len, bytes, it->len));
    memcpy(cid, CID_PREFIX, 4);
    memcpy(cid + 4, data->digest, DIGEST);
    return settle_record(v, it, data->digest) &&
           of_tree(v, tree_add(&v->tree, layer, name, it->key_len, cid, CID_SIZE));
}

static int flush(proving *v)
{
    hash_job jobs[2 * BATCH];
    size_t count = 0;
    for (size_t i = 0; i < v->count; i++) {
        const item *it = &v->items[i];
        jobs[count++] = (hash_job){.data = v->keys.data + it->key, .len = it->key_len};
        jobs[count++] = (hash_job){.data = v->data.data + it->data, .len = it->kind == RECORD ? it->len : 0};
    }
    sha256_all(jobs, count);
    for (size_t i = 0; i < v->count; i++)
        if (!settle_item(v, &v->items[i], &jobs[2 * i], &jobs[2 * i + 1]))
            return 0;
    v->count = v->keys.len = v->data.len = 0;
    return 1;
}

/* Room for one more item, which begins where keys and data have come to. */
static item *next_item(proving *v, int kind)
{
    if ((v->count == BATCH || v->data.len >= BATCH_BYTES) && !flush(v))
        return NULL;
    item *it = &v->items[v->count++];
    *it = (item){.kind = kind, .key = v->keys.len, .data = v->data.len};
    return it;
}

/* Takes the key that stands at the end of v->keys. */
static int end_key(proving *v, item *it)
{
    const uint8_t *key = v->keys.data + it->key, *last = v->last.data;
    it->key_len = v->keys.len - it->key;
    size_t shared = it->key_len < v->last.len ? it->key_len : v->last.len;
    int order = shared ? memcmp(key, last, shared) : 0;
    if (it->key_len == 0 || it->key_len > MAX_KEY)
        return fail(v, "a key of no length that one can have");
    if (order < 0 || (order == 0 && it->key_len <= v->last.len))
        return fail(v, "keys are out of order");
    v->last.len = 0;
    return append(v, &v->last, key, it->key_len);
}

static int read_number(cursor *c, size_t bytes, uint64_t *value)
{
    if ((size_t)(c->end - c->at) < bytes)
        return 0;
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)c->at[i] << 8 * i;
    c->at += bytes;
    return 1;
}

static int read_bytes(cursor *c, size_t bytes, text *t)
{
    uint64_t len;
    if (!read_number(c, bytes, &len) || len > (size_t)(c->end - c->at))
        return 0;
    *t = (text){c->at, (size_t)len};
    c->at += len;
    return 1;
}

static const char CUT[] = "the exceptions end inside of one";

/* To the head of the next one; its kind stays to be read. */
static int find_exception(proving *v)
{
    uint64_t skip;
    v->next = UINT64_MAX;
    if (v->exceptions.at == v->exceptions.end)
        return 1;
    cursor c = {v->exceptions.at + 1, v->exceptions.end};
    if (!read_number(&c, 4, &skip))
        return fail(v, CUT);
    v->next = v->kept + skip;
    return 1;
}

static int add_left_out(proving *v, cursor *c)
{
    text path, cid;
    if (!read_bytes(c, 2, &path) || !read_bytes(c, 1, &cid))
        return fail(v, CUT);
    item *it = next_item(v, LEFT_OUT);
    if (!it || !append(v, &v->keys, path.at, path.len) || !append(v, &v->data, cid.at, cid.len))
        return 0;
    it->len = cid.len;
    return end_key(v, it);
}

static int add_subtree(proving *v, cursor *c)
{
    uint64_t layer;
    if (!read_number(c, 1, &layer) || c->end - c->at < DIGEST)
        return fail(v, CUT);
    item *it = next_item(v, SUBTREE);
    if (!it || !append(v, &v->data, c->at, DIGEST))
        return 0;
    it->layer = (int)layer;
    c->at += DIGEST;
    return 1;
}

/* All exceptions before the next record; `own` becomes its bytes if it has some of its own. */
static int before_record(proving *v, text *own)
{
    while (v->next == v->kept) {
        cursor *c = &v->exceptions;
        int kind = *c->at;
        text skipped;
        c->at += 5;
        if (kind == EXCEPT_RECORD) {
            if (!read_bytes(c, 4, own))
                return fail(v, CUT);
            v->next = UINT64_MAX; /* found when that record is read */
            return 1;
        }
        if (kind == EXCEPT_LEFT_OUT ? !add_left_out(v, c) : kind == EXCEPT_SUBTREE && !add_subtree(v, c))
            return 0;
        if ((kind == EXCEPT_COMMIT || kind == EXCEPT_NODE) && !read_bytes(c, 4, &skipped))
            return fail(v, CUT);
        if (kind < EXCEPT_RECORD || kind > EXCEPT_NODE)
            return fail(v, "an exception of a kind that is not known");
        if (!find_exception(v))
            return 0;
    }
    return 1;
}

/* A record with bytes of its own: its JSON has to be what they give. */
static int add_odd(proving *v, text own, text json)
{
    uint8_t odd;
    v->json.len = 0;
    drop_reason why = json_from_cbor(&v->odd, own.at, own.len, &v->json, &odd);
    if (why == DROP_NO_MEMORY)
        return fail_memory(v);
    if (why || v->json.len != json.len || memcmp(v->json.data, json.at, json.len) != 0)
        return fail(v, "its JSON is not that of its bytes");
    return append(v, &v->data, own.at, own.len);
}

static int add_record(proving *v, const proven_run *run, cursor *c)
{
    text rkey, json, own = {0};
    int no_memory = 0;
    if (!before_record(v, &own))
        return 0;
    if (!read_bytes(c, 2, &rkey) || !read_bytes(c, 4, &json))
        return fail(v, "the data end inside a field");
    item *it = next_item(v, RECORD);
    if (!it || !append(v, &v->keys, run->name.at, run->name.len) || !append(v, &v->keys, (const uint8_t *)"/", 1) ||
        !append(v, &v->keys, rkey.at, rkey.len) || !end_key(v, it))
        return 0;
    if (own.at) {
        if (!add_odd(v, own, json))
            return 0;
    } else {
        const char *wrong = cbor_from_json(json.at, json.len, &v->data, &no_memory);
        if (wrong)
            return no_memory ? fail_memory(v) : fail(v, wrong);
    }
    it->len = v->data.len - it->data;
    v->kept++;
    return !own.at || find_exception(v);
}

static int prove_all(proving *v, const proven_run *runs, size_t run_count)
{
    text own = {0};
    if (!find_exception(v))
        return 0;
    for (size_t i = 0; i < run_count; i++) {
        text entries = runs[i].entries;
        cursor c = {entries.at, entries.len ? entries.at + entries.len : entries.at};
        for (uint64_t n = 0; n < runs[i].records; n++)
            if (!add_record(v, &runs[i], &c))
                return 0;
        if (c.at != c.end)
            return fail(v, "bytes behind the last record");
    }
    if (!before_record(v, &own))
        return 0;
    if (own.at || v->exceptions.at != v->exceptions.end)
        return fail(v, "exceptions behind the last record");
    if (!flush(v) || (v->p->records % GROUP && !end_group(v)))
        return 0;
    return of_tree(v, tree_finish(&v->tree, v->p->root));
}

void prove(proof_result *p, const proven_run *runs, size_t run_count, text exceptions, const uint64_t seed[4],
           int wants_digests, int wants_car)
{
    static const uint8_t nothing[1];
    proving *v = calloc(1, sizeof *v);
    /* Nowhere is an offset added to no memory at all. */
    if (!v || !buffer_reserve(&v->keys, 1) || !buffer_reserve(&v->data, 1)) {
        p->no_memory = 1;
        if (v)
            free(v->keys.data);
        free(v);
        return;
    }
    v->p = p;
    v->wants_digests = wants_digests;
    v->wants_car = wants_car;
    v->tree.car = wants_car ? &p->car : NULL;
    if (!exceptions.len)
        exceptions.at = nothing;
    v->exceptions = (cursor){exceptions.at, exceptions.at + exceptions.len};
    v->odd.car = exceptions.at;
    v->odd.car_len = exceptions.len;
    v->odd.options.keep_cids = 1;
    memcpy(v->odd.options.seed, seed, sizeof v->odd.options.seed);
    v->odd.mem = &v->mem;
    /* Those before the one that is wrong may still wait in the batch. */
    if (!prove_all(v, runs, run_count))
        p->records = v->kept;
    tree_free(&v->tree);
    scratch_free(&v->mem);
    free(v->keys.data);
    free(v->data.data);
    free(v->json.data);
    free(v->last.data);
    free(v);
}

void proof_result_free(proof_result *p)
{
    free(p->sums.data);
    free(p->digests.data);
    free(p->car.data);
}

/* The Merkle search tree: every key in order, every check, on a stack of our own. */
#include "proof.h"
#include "tree.h"

#include <stdlib.h>

typedef struct {
    const uint8_t *start;   /* for error places */
    const uint8_t *left;    /* digest of a subtree still to visit before the entries, or NULL */
    block *left_child;
    size_t first, next, end; /* range of walk.entries */
    size_t key_len;
    int layer;
    const uint8_t *digest;
    proof_mark mark;
    uint8_t key[MAX_KEY + COPY_SLACK];
} node;

typedef struct {
    repo *r;
    node *nodes;            /* the path from the root; layers only fall, so it is at most the root's + 1 long */
    size_t depth;
    entry *entries;         /* of every node on the path, one after the other; r->mem has them */
    size_t entry_count;
    const node *last;       /* whose key was visited last */
} walk;

static int read_key(cursor *c, char name)
{
    const uint8_t key[2] = {0x61, (uint8_t)name};
    if (c->end - c->at < 2 || memcmp(c->at, key, 2) != 0)
        return 0;
    c->at += 2;
    return 1;
}

static int read_subtree(cursor *c, const uint8_t **digest)
{
    if (c->at != c->end && *c->at == 0xf6) {
        c->at++;
        *digest = NULL;
        return 1;
    }
    return cbor_sha256_link(c, digest);
}

/* A number, most often one that stands in its head or in the byte behind: which of the two cannot be foretold. */
static inline int read_number(cursor *c, uint64_t *value)
{
    head h;
    if (c->end - c->at >= 2 && c->at[0] <= 24) {
        int wide = c->at[0] == 24;
        *value = c->at[wide];
        c->at += 1 + wide;
        return 1;
    }
    if (!cbor_head(c, &h) || h.major != 0)
        return 0;
    *value = h.arg;
    return 1;
}

static int read_entry(cursor *c, entry *e)
{
    head h;
    const uint8_t *cid;
    size_t suffix, cid_len;
    uint64_t prefix;
    if (!cbor_head(c, &h) || h.major != 5 || h.arg != 4)
        return 0;
    if (!read_key(c, 'k') || !cbor_span(c, 2, &e->suffix, &suffix) || suffix > MAX_KEY)
        return 0;
    if (!read_key(c, 'p') || !read_number(c, &prefix) || prefix > MAX_KEY)
        return 0;
    if (!read_key(c, 't') || !read_subtree(c, &e->subtree))
        return 0;
    e->suffix_len = (uint32_t)suffix;
    e->prefix_len = (uint16_t)prefix;
    if (!read_key(c, 'v'))
        return 0;
    cursor value = *c;
    if (cbor_sha256_link(c, &e->value))
        return 1;
    /* Some other CID costs the record, not the tree. */
    *c = value;
    e->value = NULL;
    if (!cbor_link(c, &cid, &cid_len))
        return 0;
    e->cid = cid;
    e->cid_len = (uint16_t)(cid_len < LONGEST_LEFT_OUT ? cid_len : LONGEST_LEFT_OUT);
    return 1;
}

/* Room for one more, or NULL. */
static inline entry *next_entry(walk *w)
{
    scratch *mem = w->r->mem;
    if (w->entry_count == mem->entry_cap && !grow(&mem->entries, &mem->entry_cap, 64, sizeof *w->entries))
        return NULL;
    w->entries = mem->entries;
    return &w->entries[w->entry_count];
}

enum { LINK_BYTES = 41 };

/* What the node takes where every head is as short as it can be. */
static size_t node_bytes(const walk *w, const node *n)
{
    size_t bytes = 5 + head_bytes(n->end - n->first) + (n->left ? LINK_BYTES : 1);
    for (size_t i = n->first; i < n->end; i++) {
        const entry *e = &w->entries[i];
        bytes += 9 + head_bytes(e->suffix_len) + e->suffix_len + head_bytes(e->prefix_len);
        bytes += e->subtree ? LINK_BYTES : 1;
        bytes += e->value ? LINK_BYTES : 3 + head_bytes(e->cid_len + 1u) + e->cid_len;
    }
    return bytes;
}

/* Reads a node of exactly the canonical shape {e: [{k, p, t, v}...], l}. */
static repo_error parse_node(walk *w, const uint8_t digest[DIGEST], block *guess, node *n)
{
    repo *r = w->r;
    block *b = car_confirm(r, guess, digest);
    head h;
    if (!b)
        return repo_fail(r, REPO_MISSING_BLOCK, "a tree node is not in the CAR", digest);
    n->start = r->car + b->start;
    /* It would bring its keys a second time; with hashes unchecked it could even hold itself. */
    if (b->opened)
        return repo_fail(r, REPO_BAD_TREE, "a tree node is in two places", n->start);
    b->opened = 1;
    n->digest = digest;
    n->mark = proof_begin(r);
    n->key_len = 0;
    n->first = n->next = w->entry_count;
    cursor c = {n->start, n->start + b->len};
    if (!cbor_head(&c, &h) || h.major != 5 || h.arg != 2 || !read_key(&c, 'e') || !cbor_head(&c, &h) || h.major != 4)
        return repo_fail(r, REPO_BAD_TREE, "a tree node is malformed", c.at);
    for (uint64_t left = h.arg; left; left--) {
        entry *e = next_entry(w);
        if (!e)
            return REPO_NO_MEMORY;
        if (!read_entry(&c, e))
            return repo_fail(r, REPO_BAD_TREE, "a tree entry is malformed", c.at);
        /* Looked up ahead of their turn, so that their bytes are on the way when it comes. */
        if (e->value)
            e->record = car_guess(r, e->value);
        e->child = e->subtree ? car_guess(r, e->subtree) : NULL;
        w->entry_count++;
    }
    n->end = w->entry_count;
    if (!read_key(&c, 'l') || !read_subtree(&c, &n->left) || c.at != c.end)
        return repo_fail(r, REPO_BAD_TREE, "a tree node's left link is malformed", c.at);
    if (n->first != n->end && w->entries[n->first].prefix_len != 0)
        return repo_fail(r, REPO_BAD_TREE, "a node's first key has a prefix", n->start);
    n->left_child = n->left ? car_guess(r, n->left) : NULL;
    if (r->options.proof && node_bytes(w, n) != b->len)
        r->odd_tree = 1;
    return REPO_OK;
}

static inline repo_error check_key(repo *r, const node *n, const entry *e)
{
    size_t len = (size_t)e->prefix_len + e->suffix_len;
    if (e->prefix_len > n->key_len)
        return repo_fail(r, REPO_BAD_TREE, "a prefix is longer than the key before", n->start);
    if (len > MAX_KEY || len == 0)
        return repo_fail(r, REPO_BAD_TREE, "a key is empty or too long", n->start);
    return REPO_OK;
}

/* Whether as many bytes of the CAR lie behind the suffix as are read with it where that is quicker. */
static inline int has_slack(const repo *r, const entry *e)
{
    return (size_t)(r->car + r->car_len - e->suffix) >= (size_t)e->suffix_len + COPY_SLACK;
}

/* Completes the entry's key, which is checked, in place of the one before it in the node. */
static inline void next_key(const repo *r, node *n, const entry *e)
{
    if (has_slack(r, e))
        copy_short(n->key + e->prefix_len, e->suffix, e->suffix_len);
    else
        memcpy(n->key + e->prefix_len, e->suffix, e->suffix_len);
    n->key_len = e->prefix_len + e->suffix_len;
}

/* A root says its layer by its first key; for every other key and node the layer is given. */
static repo_error check_layer(repo *r, node *n, const uint8_t digest[DIGEST])
{
    if (n->layer < 0)
        n->layer = digest_layer(digest);
    if (digest_layer(digest) != n->layer)
        return repo_fail(r, REPO_BAD_TREE, "a key is in the wrong layer", n->start);
    return REPO_OK;
}

/* Checks the layer of every key when the node is opened, two at a time. */
static repo_error check_keys(walk *w, node *n)
{
    repo *r = w->r;
    uint8_t held[MAX_KEY + COPY_SLACK];
    hash_job jobs[2];
    repo_error error = REPO_OK;
    for (size_t i = n->first; !error && i < n->end; i += 2) {
        error = check_key(r, n, &w->entries[i]);
        if (error)
            break;
        next_key(r, n, &w->entries[i]);
        if (i + 1 == n->end) {
            sha256(n->key, n->key_len, jobs[0].digest);
            error = check_layer(r, n, jobs[0].digest);
            break;
        }
        copy_short(held, n->key, n->key_len);
        jobs[0].data = held;
        jobs[0].len = n->key_len;
        error = check_key(r, n, &w->entries[i + 1]);
        if (error)
            break;
        next_key(r, n, &w->entries[i + 1]);
        jobs[1].data = n->key;
        jobs[1].len = n->key_len;
        sha256_all(jobs, 2);
        error = check_layer(r, n, jobs[0].digest);
        if (!error)
            error = check_layer(r, n, jobs[1].digest);
    }
    n->key_len = 0;
    return error;
}

/* Layers take a hash of each key: who does not have blocks hashed does not have these either. Order and completeness
 * are checked all the same, and a layer that nobody checked still counts the levels that may follow. */
static repo_error open_node(walk *w, const uint8_t digest[DIGEST], block *guess, int layer, node *n)
{
    repo_error error = parse_node(w, digest, guess, n);
    n->layer = layer;
    return error || !w->r->options.verify_hashes ? error : check_keys(w, n);
}

static repo_error push_root(walk *w)
{
    repo *r = w->r;
    node root;
    int layer = r->options.verify_hashes ? -1 : MAX_LAYER;
    repo_error error = open_node(w, r->data_root, car_guess(r, r->data_root), layer, &root);
    if (error)
        return error;
    if (root.first == root.end && root.left)
        return repo_fail(r, REPO_BAD_TREE, "the root node is only a pointer", root.start);
    if (root.layer < 0)
        root.layer = 0;
    w->nodes = malloc(((size_t)root.layer + 1) * sizeof *w->nodes);
    if (!w->nodes)
        return REPO_NO_MEMORY;
    w->nodes[w->depth++] = root;
    return REPO_OK;
}

static repo_error push_child(walk *w, const node *parent, const uint8_t digest[DIGEST], block *guess)
{
    repo *r = w->r;
    if (parent->layer == 0)
        return repo_fail(r, REPO_BAD_TREE, "a node of the lowest layer has a subtree", parent->start);
    node *n = &w->nodes[w->depth];
    repo_error error = open_node(w, digest, guess, parent->layer - 1, n);
    if (error)
        return error;
    if (n->first == n->end && !n->left)
        return repo_fail(r, REPO_BAD_TREE, "a node below the root is empty", n->start);
    w->depth++;
    return REPO_OK;
}

static int sorts_after(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    size_t shared = a_len < b_len ? a_len : b_len;
    int order = shared ? memcmp(a, b, shared) : 0;
    return order ? order > 0 : a_len > b_len;
}

/* The same, where eight bytes can be read of both. */
static int comes_after(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    uint64_t x = first_bytes(a, a_len), y = first_bytes(b, b_len);
    return x != y ? x > y : sorts_after(a, a_len, b, b_len);
}

/* Whether the suffix sorts behind what follows the prefix in the key before it in the node. */
static int suffix_rises(const repo *r, const node *n, const entry *e)
{
    const uint8_t *before = n->key + e->prefix_len;
    size_t left = n->key_len - e->prefix_len;
    if (has_slack(r, e))
        return comes_after(e->suffix, e->suffix_len, before, left);
    return sorts_after(e->suffix, e->suffix_len, before, left);
}

static repo_error visit_entry(walk *w, node *n, const entry *e)
{
    repo *r = w->r;
    int ordered = 1;
    repo_error error = check_key(r, n, e);
    if (error)
        return error;
    /* A tree that is written as it has to be shares all that two keys can share. */
    if (e->prefix_len < n->key_len && e->suffix_len && n->key[e->prefix_len] == *e->suffix)
        r->odd_tree = 1;
    /* The key before in the same node shares the prefix: only what follows it can differ. */
    if (w->last == n)
        ordered = suffix_rises(r, n, e);
    next_key(r, n, e);
    if (w->last && w->last != n)
        ordered = comes_after(n->key, n->key_len, w->last->key, w->last->key_len);
    if (!ordered)
        return repo_fail(r, REPO_BAD_TREE, "keys are out of order", n->start);
    w->last = n;
    block *record = e->value ? car_confirm(r, e->record, e->value) : NULL;
    if (e->value && !record)
        return repo_fail(r, REPO_MISSING_BLOCK, "a record is not in the CAR", e->value);
    leaf l = {n->key, n->key_len, record, NULL, CID_SIZE};
    if (record) {
        l.cid = r->car + record->start - CID_SIZE;
    } else {
        l.cid = e->cid;
        l.cid_len = e->cid_len;
    }
    return record_add(r, &l);
}

static repo_error walk_nodes(walk *w)
{
    repo *r = w->r;
    repo_error error = push_root(w);
    while (!error && w->depth) {
        node *n = &w->nodes[w->depth - 1];
        if (n->left) {
            const uint8_t *left = n->left;
            n->left = NULL;
            error = push_child(w, n, left, n->left_child);
        } else if (n->next == n->end) {
            w->entry_count = n->first;
            w->depth--;
            if (r->options.proof)
                error = proof_end(r, &n->mark, n->layer, n->digest);
        } else {
            const entry *e = &w->entries[n->next++];
            error = visit_entry(w, n, e);
            if (!error && e->subtree)
                error = push_child(w, n, e->subtree, e->child);
        }
    }
    return error;
}

repo_error mst_walk(repo *r)
{
    walk w = {.r = r, .entries = r->mem->entries};
    repo_error error = walk_nodes(&w);
    free(w.nodes);
    return error || !r->options.proof ? error : proof_finish(r);
}

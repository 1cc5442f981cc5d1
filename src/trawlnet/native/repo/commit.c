/* The commit: its fields, and the bytes that its signature covers. */
#include "proof.h"

typedef struct {
    const uint8_t *data;
    uint64_t version;
    int has_version;
} commit;

static int is_field(const uint8_t *key, size_t len, const char *name)
{
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

/* Returns 0 for a repeated field or one of the wrong type. */
static int read_field(repo *r, commit *found, const uint8_t *key, size_t len, cursor *value)
{
    head h;
    size_t size;
    if (is_field(key, len, "did"))
        return !r->did && cbor_span(value, 3, &r->did, &r->did_len) && is_did(r->did, r->did_len);
    if (is_field(key, len, "rev"))
        return !r->rev && cbor_span(value, 3, &r->rev, &r->rev_len) && is_tid(r->rev, r->rev_len);
    if (is_field(key, len, "sig"))
        return !r->signature && cbor_span(value, 2, &r->signature, &size) && size == SIGNATURE;
    if (is_field(key, len, "data"))
        return !found->data && cbor_sha256_link(value, &found->data);
    if (is_field(key, len, "version")) {
        if (found->has_version || !cbor_head(value, &h) || h.major != 0)
            return 0;
        found->has_version = 1;
        found->version = h.arg;
    }
    return 1;
}

repo_error commit_load(repo *r)
{
    const block *b = car_find(r, r->root);
    commit found = {0};
    head h;
    if (!b)
        return repo_fail(r, REPO_MISSING_BLOCK, "the commit is not in the CAR", r->car);
    const uint8_t *start = r->car + b->start;
    cursor c = {start, start + b->len};
    if (!cbor_head(&c, &h) || h.major != 5 || h.arg > MAX_COMMIT_FIELDS)
        return repo_fail(r, REPO_BAD_COMMIT, "the commit is no small map", start);
    if (!buffer_reserve(&r->unsigned_commit, (size_t)b->len + 1))
        return REPO_NO_MEMORY;
    r->unsigned_commit.len = 1;
    for (uint64_t n = h.arg; n; n--) {
        const uint8_t *entry = c.at, *key;
        size_t len;
        if (!cbor_span(&c, 3, &key, &len))
            return repo_fail(r, REPO_BAD_COMMIT, "a commit key is no text", entry);
        cursor value = c;
        if (!cbor_skip(&c, 1))
            return repo_fail(r, REPO_BAD_COMMIT, "a commit value is malformed", entry);
        if (!read_field(r, &found, key, len, &value))
            return repo_fail(r, REPO_BAD_COMMIT, "a commit field is repeated or of the wrong form", entry);
        if (!is_field(key, len, "sig")) {
            memcpy(r->unsigned_commit.data + r->unsigned_commit.len, entry, (size_t)(c.at - entry));
            r->unsigned_commit.len += (size_t)(c.at - entry);
        }
    }
    if (c.at != c.end)
        return repo_fail(r, REPO_BAD_COMMIT, "bytes follow the commit", c.at);
    if (!found.has_version)
        return repo_fail(r, REPO_BAD_COMMIT, "the commit has no version", start);
    if (found.version != 3)
        return repo_fail(r, REPO_UNSUPPORTED_VERSION, "the commit's version is not 3", start);
    if (!r->did || !r->rev || !r->signature || !found.data)
        return repo_fail(r, REPO_BAD_COMMIT, "the commit lacks did, rev, data or sig", start);
    r->unsigned_commit.data[0] = (uint8_t)(0xa0 | (h.arg - 1));
    r->data_root = found.data;
    return r->options.proof ? proof_commit(r, start, b->len) : REPO_OK;
}

/* A frame's header, and what a #commit says by itself. */
#include "live.h"

#include "utf8.h"

int same_text(text a, const char *name) { return a.len == strlen(name) && memcmp(a.at, name, a.len) == 0; }

static int is_utf8(text t)
{
    for (size_t i = 0; i < t.len;) {
        size_t len = t.at[i] < 0x80 ? 1 : utf8_sequence(t.at + i, t.len - i);
        if (!len)
            return 0;
        i += len;
    }
    return 1;
}

static int read_text(cursor c, text *found)
{
    return !found->at && cbor_span(&c, 3, &found->at, &found->len) && found->len <= MAX_TEXT && is_utf8(*found);
}

static int read_integer(cursor c, int64_t *found)
{
    head h;
    if (!cbor_head(&c, &h) || h.major > 1 || h.arg > INT64_MAX)
        return 0;
    *found = h.major ? -1 - (int64_t)h.arg : (int64_t)h.arg;
    return 1;
}

static int is_null(cursor c) { return *c.at == 0xf6; } /* a value begins there */

static int read_link(cursor c, const uint8_t **digest) { return !*digest && cbor_sha256_link(&c, digest); }

/* The next field of a map that cbor_skip has passed over before. */
static int next_field(cursor *c, text *key, cursor *value)
{
    if (!cbor_span(c, 3, &key->at, &key->len))
        return 0;
    *value = *c;
    return cbor_skip(c, 1);
}

static int read_map(cursor *c, uint64_t *count)
{
    head h;
    if (!cbor_head(c, &h) || h.major != 5 || h.arg > MAX_CONTAINER)
        return 0;
    *count = h.arg;
    return 1;
}

static int read_header(cursor c, frame_head *found)
{
    uint64_t count;
    text key;
    cursor value, kind = {0};
    int has_op = 0;
    if (!read_map(&c, &count))
        return 0;
    for (; count; count--) {
        if (!next_field(&c, &key, &value))
            return 0;
        if (same_text(key, "op")) {
            if (has_op || !read_integer(value, &found->op))
                return 0;
            has_op = 1;
        } else if (same_text(key, "t")) {
            if (kind.at)
                return 0;
            kind = value;
        }
    }
    if (!has_op)
        return 0;
    return found->op != 1 || (kind.at && read_text(kind, &found->kind));
}

refusal frame_read(const uint8_t *at, size_t len, frame_head *found)
{
    cursor c = {at, at + len};
    if (len > MAX_FRAME)
        return LIVE_FRAME_TOO_LARGE;
    if (!cbor_skip(&c, 0))
        return LIVE_NOT_CBOR;
    found->payload = c.at;
    if (!cbor_skip(&c, 0))
        return LIVE_NOT_CBOR;
    if (c.at != c.end)
        return LIVE_TRAILING_BYTES;
    return read_header((cursor){at, found->payload}, found) ? LIVE_OK : LIVE_BAD_HEADER;
}

typedef struct {
    int has_seq, has_since, has_prev_data, has_too_big, has_ops;
} seen_fields;

static int read_flag(cursor c, int *found)
{
    *found = *c.at == 0xf5;
    return *c.at == 0xf4 || *c.at == 0xf5;
}

static int read_array(cursor c, cursor *inside, uint64_t *count)
{
    head h;
    if (!cbor_head(&c, &h) || h.major != 4)
        return 0;
    *inside = c;
    *count = h.arg;
    return 1;
}

static int once(int *seen) { return !(*seen)++; }

/* Returns 0 for a repeated field or one of the wrong type. */
static int read_field(commit_fields *f, seen_fields *seen, text key, cursor value)
{
    if (same_text(key, "seq"))
        return once(&seen->has_seq) && read_integer(value, &f->seq);
    if (same_text(key, "repo"))
        return read_text(value, &f->did);
    if (same_text(key, "time"))
        return read_text(value, &f->time);
    if (same_text(key, "rev"))
        return read_text(value, &f->rev);
    if (same_text(key, "since"))
        return once(&seen->has_since) && (is_null(value) || read_text(value, &f->since));
    if (same_text(key, "commit"))
        return read_link(value, &f->commit);
    if (same_text(key, "prevData"))
        return once(&seen->has_prev_data) && (is_null(value) || read_link(value, &f->prev_data));
    if (same_text(key, "tooBig"))
        return once(&seen->has_too_big) && read_flag(value, &f->too_big);
    if (same_text(key, "blocks"))
        return !f->blocks.at && cbor_span(&value, 2, &f->blocks.at, &f->blocks.len);
    if (same_text(key, "ops"))
        return once(&seen->has_ops) && read_array(value, &f->ops, &f->op_count);
    return 1;
}

refusal fields_read(const uint8_t *at, size_t len, commit_fields *f)
{
    cursor c = {at, at + len}, value;
    seen_fields seen = {0};
    uint64_t count;
    text key;
    if (!read_map(&c, &count))
        return LIVE_BAD_FIELDS;
    for (; count; count--)
        if (!next_field(&c, &key, &value) || !read_field(f, &seen, key, value))
            return LIVE_BAD_FIELDS;
    if (!seen.has_seq || !f->did.at || !f->time.at || !f->rev.at || !f->commit || !f->blocks.at || !seen.has_ops)
        return LIVE_BAD_FIELDS;
    return f->seq > 0 && f->seq <= MAX_SEQ ? LIVE_OK : LIVE_BAD_SEQ;
}

/* Microseconds, of what is_tid holds for. */
static int64_t tid_time_us(const uint8_t *tid)
{
    uint64_t number = 0;
    for (int i = 0; i < 13; i++)
        number = number << 5 | (uint64_t)(tid[i] < 'a' ? tid[i] - '2' : tid[i] - 'a' + 6);
    return (int64_t)(number >> 10);
}

refusal fields_check(const commit_fields *f, int64_t now_us)
{
    if (!is_did(f->did.at, f->did.len))
        return LIVE_BAD_DID;
    if (!is_tid(f->rev.at, f->rev.len))
        return LIVE_BAD_REV;
    if (tid_time_us(f->rev.at) - FUTURE_TOLERANCE_US > now_us)
        return LIVE_FUTURE_REV;
    if (f->since.at && (!is_tid(f->since.at, f->since.len) || memcmp(f->since.at, f->rev.at, f->rev.len) >= 0))
        return LIVE_BAD_SINCE;
    if (f->too_big)
        return LIVE_LEFT_OUT;
    if (f->blocks.len > MAX_BLOCKS)
        return LIVE_TOO_LARGE;
    return f->op_count > MAX_OPS ? LIVE_TOO_MANY_OPS : LIVE_OK;
}

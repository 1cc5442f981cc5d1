/* The ops of a commit: each well-formed, no path twice. */
#include "live.h"

#include <stdlib.h>

static int read_action(text name, op_action *action)
{
    if (same_text(name, "create"))
        *action = OP_CREATE;
    else if (same_text(name, "update"))
        *action = OP_UPDATE;
    else if (same_text(name, "delete"))
        *action = OP_DELETE;
    else
        return 0;
    return 1;
}

static int read_link_or_null(cursor c, int *seen, const uint8_t **digest)
{
    if ((*seen)++)
        return 0;
    return *c.at == 0xf6 || cbor_sha256_link(&c, digest);
}

/* Returns 0 for what is no op. */
static int read_op(cursor *c, op *o)
{
    head h;
    text key, action = {0};
    int has_cid = 0, has_prev = 0;
    if (!cbor_head(c, &h) || h.major != 5)
        return 0;
    for (uint64_t n = h.arg; n; n--) {
        if (!cbor_span(c, 3, &key.at, &key.len))
            return 0;
        cursor value = *c;
        int reads = 1;
        if (!cbor_skip(c, 3))
            return 0;
        if (same_text(key, "action"))
            reads = !action.at && cbor_span(&value, 3, &action.at, &action.len);
        else if (same_text(key, "path"))
            reads = !o->path.at && cbor_span(&value, 3, &o->path.at, &o->path.len);
        else if (same_text(key, "cid"))
            reads = read_link_or_null(value, &has_cid, &o->cid);
        else if (same_text(key, "prev"))
            reads = read_link_or_null(value, &has_prev, &o->prev);
        if (!reads)
            return 0;
    }
    return action.at && o->path.at && read_action(action, &o->action);
}

/* Servers that send no prevData know no prev either. */
static int goes_together(const op *o, int is_old)
{
    if (!o->cid != (o->action == OP_DELETE))
        return 0;
    if (o->action == OP_CREATE)
        return !o->prev;
    return o->prev || is_old;
}

/* Checking a record key may read on behind it, which here may be the end of the frame. */
static int is_path(op *o)
{
    uint8_t rkey[512 + COPY_SLACK];
    const uint8_t *slash = memchr(o->path.at, '/', o->path.len);
    if (!slash)
        return 0;
    o->collection_len = (size_t)(slash - o->path.at);
    size_t len = o->path.len - o->collection_len - 1;
    if (len > 512 || !is_nsid(o->path.at, o->collection_len))
        return 0;
    memcpy(rkey, slash + 1, len);
    memset(rkey + len, 0, COPY_SLACK);
    return is_rkey(rkey, len);
}

/* By insertion: there are few, and most senders sort them. */
static void sort_ops(live *l)
{
    for (size_t i = 0; i < l->op_count; i++) {
        size_t at = i;
        for (; at && compare_texts(l->ops[l->order[at - 1]].path, l->ops[i].path) > 0; at--)
            l->order[at] = l->order[at - 1];
        l->order[at] = (uint8_t)i;
    }
}

refusal ops_read(live *l)
{
    cursor c = l->fields.ops;
    l->op_count = (size_t)l->fields.op_count;
    l->is_inverted = 1;
    for (size_t i = 0; i < l->op_count; i++) {
        op *o = &l->ops[i];
        if (!read_op(&c, o) || !goes_together(o, !l->fields.prev_data))
            return LIVE_BAD_OP;
        if (!is_path(o))
            return LIVE_BAD_PATH;
        if (o->action != OP_CREATE && !o->prev)
            l->is_inverted = 0;
    }
    sort_ops(l);
    for (size_t i = 1; i < l->op_count; i++)
        if (compare_texts(l->ops[l->order[i - 1]].path, l->ops[l->order[i]].path) == 0)
            return LIVE_REPEATED_PATH;
    return LIVE_OK;
}

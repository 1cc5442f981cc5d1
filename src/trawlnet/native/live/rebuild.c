/* The tree before: built from the left out of the line that the inversion leaves. A subtree stays closed where a key of
 * a higher layer, or nothing, stands on each side; else it shares its place with what stands there, and is opened. */
#include "live.h"

enum { HEAD_ROOM = 16, LINK_SIZE = 5 + CID_SIZE };

typedef struct {
    live *l;
    size_t next;         /* of mem->line; mem->to_come, a stack, goes before it */
    item held;           /* a subtree that stays closed if what comes next allows it */
    int is_held;
    int last;            /* layer of the key placed last, or -1 */
    int top;             /* highest layer in use, or -1 */
} builder;

/* Writing. */

static uint8_t *put_head(uint8_t *to, uint8_t major, size_t arg)
{
    uint8_t kind = (uint8_t)(major << 5);
    if (arg < 24) {
        *to++ = (uint8_t)(kind | arg);
    } else if (arg <= UINT8_MAX) {
        *to++ = kind | 24;
        *to++ = (uint8_t)arg;
    } else if (arg <= UINT16_MAX) {
        *to++ = kind | 25;
        *to++ = (uint8_t)(arg >> 8);
        *to++ = (uint8_t)arg;
    } else {
        *to++ = kind | 26;
        for (int shift = 24; shift >= 0; shift -= 8)
            *to++ = (uint8_t)(arg >> shift);
    }
    return to;
}

static uint8_t *put_bytes(uint8_t *to, const void *from, size_t len)
{
    memcpy(to, from, len);
    return to + len;
}

static uint8_t *put_subtree(uint8_t *to, const uint8_t *digest)
{
    static const uint8_t HEAD[9] = {0xd8, 0x2a, 0x58, CID_SIZE + 1, 0, 0x01, 0x71, 0x12, 0x20};
    if (!digest) {
        *to = 0xf6;
        return to + 1;
    }
    return put_bytes(put_bytes(to, HEAD, sizeof HEAD), digest, DIGEST);
}

static size_t shared_prefix(text a, text b)
{
    size_t most = a.len < b.len ? a.len : b.len, i = 0;
    while (i < most && a.at[i] == b.at[i])
        i++;
    return i;
}

/* Leaves room for the head, which says how many entries there are. */
static int begin(open_layer *o)
{
    if (o->bytes.len)
        return 1;
    if (!buffer_reserve(&o->bytes, HEAD_ROOM))
        return 0;
    o->bytes.len = HEAD_ROOM;
    return 1;
}

/* The entry whose subtree is known now. */
static int write_last(open_layer *o)
{
    text key = o->last.key;
    size_t shared = o->count > 1 ? shared_prefix(o->before, key) : 0;
    if (!buffer_reserve(&o->bytes, key.len + LINK_SIZE + MAX_CID + 64))
        return 0;
    uint8_t *to = o->bytes.data + o->bytes.len;
    to = put_head(put_bytes(to, "\xa4\x61k", 3), 2, key.len - shared);
    to = put_bytes(to, key.at + shared, key.len - shared);
    to = put_head(put_bytes(to, "\x61p", 2), 0, shared);
    to = put_subtree(put_bytes(to, "\x61t", 2), o->has_right ? o->right : NULL);
    to = put_head(put_bytes(to, "\x61v\xd8\x2a", 4), 2, (size_t)o->last.cid_len + 1);
    *to++ = 0;
    to = put_bytes(to, o->last.cid, o->last.cid_len);
    o->bytes.len = (size_t)(to - o->bytes.data);
    o->before = key;
    o->has_right = 0;
    return 1;
}

/* The digest of the whole node; the layer is empty then. */
static int close_layer(open_layer *o, uint8_t digest[DIGEST])
{
    uint8_t head[HEAD_ROOM];
    if (o->count && !write_last(o))
        return 0;
    if (!begin(o) || !buffer_reserve(&o->bytes, LINK_SIZE + 2))
        return 0;
    uint8_t *to = o->bytes.data + o->bytes.len;
    to = put_subtree(put_bytes(to, "\x61l", 2), o->has_left ? o->left : NULL);
    size_t head_len = (size_t)(put_head(put_bytes(head, "\xa2\x61" "e", 3), 4, o->count) - head);
    uint8_t *start = o->bytes.data + HEAD_ROOM - head_len;
    memcpy(start, head, head_len);
    sha256(start, (size_t)(to - start), digest);
    o->bytes.len = o->count = 0;
    o->has_left = o->has_right = 0;
    return 1;
}

/* Building. */

static void attach(builder *b, int layer, const uint8_t digest[DIGEST])
{
    open_layer *o = &b->l->mem->layers[layer];
    memcpy(o->count ? o->right : o->left, digest, DIGEST);
    if (o->count)
        o->has_right = 1;
    else
        o->has_left = 1;
    if (layer > b->top)
        b->top = layer;
}

/* Finishes the nodes of the layers below `end`, from the lowest up: each becomes a subtree of the next. */
static int close_below(builder *b, int end)
{
    uint8_t digest[DIGEST];
    for (int i = 0; i < end; i++) {
        open_layer *o = &b->l->mem->layers[i];
        if (!o->count && !o->has_left)
            continue;
        if (!close_layer(o, digest))
            return 0;
        attach(b, i + 1, digest);
    }
    return 1;
}

static refusal place_key(builder *b, const item *key)
{
    open_layer *o = &b->l->mem->layers[key->layer];
    if (!close_below(b, key->layer) || !begin(o) || (o->count && !write_last(o)))
        return LIVE_NO_MEMORY;
    o->last = *key;
    o->count++;
    b->last = key->layer;
    if (key->layer > b->top)
        b->top = key->layer;
    return LIVE_OK;
}

static void release(builder *b)
{
    if (b->is_held)
        attach(b, b->held.layer + 1, b->held.cid);
    b->is_held = 0;
}

/* What a subtree holds comes next. */
static refusal open_subtree(builder *b, const item *tree)
{
    items *stack = &b->l->mem->to_come;
    size_t first = stack->count;
    item whole = *tree;
    refusal why = node_open(b->l, &whole, stack);
    if (why)
        return why;
    for (size_t low = first, high = stack->count; low + 1 < high; low++) {
        item swap = stack->at[--high];
        stack->at[high] = stack->at[low];
        stack->at[low] = swap;
    }
    return LIVE_OK;
}

static refusal beside_held(builder *b, const item *one)
{
    item held = b->held;
    refusal why = LIVE_OK;
    if (item_is_key(one) && one->layer > held.layer) {
        release(b);
        return place_key(b, one);
    }
    if (!item_is_key(one) && one->layer >= held.layer) {
        why = open_subtree(b, one);
        if (why || one->layer > held.layer)
            return why;
    } else if (!items_push(&b->l->mem->to_come, one)) {
        return LIVE_NO_MEMORY;
    }
    b->is_held = 0;
    return open_subtree(b, &held);
}

static refusal take(builder *b, const item *one)
{
    if (b->is_held)
        return beside_held(b, one);
    if (item_is_key(one))
        return place_key(b, one);
    if (b->last >= 0 && b->last <= one->layer)
        return open_subtree(b, one);
    b->held = *one;
    b->is_held = 1;
    return LIVE_OK;
}

static int next_item(builder *b, item *one)
{
    items *stack = &b->l->mem->to_come, *line = &b->l->mem->line;
    if (stack->count) {
        *one = stack->at[--stack->count];
        return 1;
    }
    if (b->next == line->count)
        return 0;
    *one = line->at[b->next++];
    return 1;
}

/* A root has keys of its own: where one is left with nothing but a subtree, that is it. */
static refusal trim(builder *b)
{
    items *found = &b->l->mem->to_come;
    item only = b->held;
    for (;;) {
        found->count = 0;
        refusal why = node_open(b->l, &only, found);
        if (why)
            return why;
        if (found->count != 1 || item_is_key(&found->at[0]))
            break;
        only = found->at[0];
    }
    memcpy(b->l->before, only.cid, DIGEST);
    return LIVE_OK;
}

static void reset(live_memory *mem)
{
    mem->to_come.count = 0;
    for (int i = 0; i < LAYERS; i++) {
        open_layer *o = &mem->layers[i];
        o->bytes.len = o->count = 0;
        o->has_left = o->has_right = 0;
    }
}

refusal tree_rebuild(live *l)
{
    builder b = {.l = l, .last = -1, .top = -1};
    item one;
    reset(l->mem);
    while (next_item(&b, &one)) {
        refusal why = take(&b, &one);
        if (why)
            return why;
    }
    if (b.is_held && b.last < 0)
        return trim(&b);
    release(&b);
    if (b.top < 0)
        b.top = 0; /* nothing is left: the empty node */
    return close_below(&b, b.top) && close_layer(&l->mem->layers[b.top], l->before) ? LIVE_OK : LIVE_NO_MEMORY;
}

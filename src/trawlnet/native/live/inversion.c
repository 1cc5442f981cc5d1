/* Ops taken back: one walk down the new tree leaves a line of the keys before, and of subtrees without any change. */
#include "live.h"

/* A key where the tree has none. */
static refusal put_back(live *l, const op *o)
{
    uint8_t digest[DIGEST];
    if (o->action != OP_DELETE)
        return LIVE_NOT_IN_TREE;
    sha256(o->path.at, o->path.len, digest);
    item before = {.key = o->path, .cid = o->prev - 4, .cid_len = CID_SIZE, .layer = (int16_t)digest_layer(digest)};
    return items_push(&l->mem->line, &before) ? LIVE_OK : LIVE_NO_MEMORY;
}

/* What was there in place of a key that the tree has. */
static refusal take_back(live *l, const op *o, const item *found)
{
    if (o->action == OP_DELETE)
        return LIVE_STILL_IN_TREE;
    if (found->cid_len != CID_SIZE || memcmp(found->cid, o->cid - 4, CID_SIZE) != 0)
        return LIVE_WRONG_CID;
    if (!o->prev)
        return LIVE_OK;
    item before = *found;
    before.cid = o->prev - 4;
    return items_push(&l->mem->line, &before) ? LIVE_OK : LIVE_NO_MEMORY;
}

static const op *op_at(const live *l, size_t number) { return &l->ops[l->order[number]]; }

static size_t ops_below(const live *l, size_t next, size_t end, text key)
{
    while (next < end && (!key.at || compare_texts(op_at(l, next)->path, key) < 0))
        next++;
    return next;
}

static refusal put_back_all(live *l, size_t *next, size_t end)
{
    refusal why = LIVE_OK;
    while (!why && *next < end)
        why = put_back(l, op_at(l, (*next)++));
    return why;
}

/* Ops from `next` to `end`, in order of their paths, lie in the range of this subtree. The recursion ends at the lowest
 * layer, which is at most MAX_LAYER below. */
static refusal walk(live *l, const item *tree, size_t next, size_t end)
{
    items *opened = &l->mem->opened;
    size_t first = opened->count, last;
    if (next == end && tree->layer >= 0)
        return items_push(&l->mem->line, tree) ? LIVE_OK : LIVE_NO_MEMORY;
    refusal why = node_open(l, tree, opened);
    last = opened->count;
    for (size_t i = first; !why && i < last; i++) {
        item one = opened->at[i]; /* the list may move */
        if (!item_is_key(&one)) {
            size_t inside = ops_below(l, next, end, one.high);
            why = walk(l, &one, next, inside);
            next = inside;
            continue;
        }
        why = put_back_all(l, &next, ops_below(l, next, end, one.key));
        if (why)
            break;
        if (next < end && compare_texts(op_at(l, next)->path, one.key) == 0)
            why = take_back(l, op_at(l, next++), &one);
        else if (!items_push(&l->mem->line, &one))
            why = LIVE_NO_MEMORY;
    }
    opened->count = first;
    return why ? why : put_back_all(l, &next, end);
}

/* A server that knows no prev sends no more of the tree than where the new records stand. */
static void forget_deletes(live *l)
{
    l->tree_count = 0;
    for (size_t i = 0; i < l->op_count; i++)
        if (l->is_inverted || op_at(l, i)->action != OP_DELETE)
            l->order[l->tree_count++] = l->order[i];
}

refusal tree_take_back(live *l)
{
    item root = {.cid = l->r.data_root, .layer = -1};
    forget_deletes(l);
    return walk(l, &root, 0, l->tree_count);
}

/* The tree before: built from the left out of the line that the inversion leaves. A subtree stays closed where a key of
 * a higher layer, or nothing, stands on each side; else it shares its place with what stands there, and is opened. */
#include "live.h"

typedef struct {
    live *l;
    size_t next;         /* of mem->line; mem->to_come, a stack, goes before it */
    item held;           /* a subtree that stays closed if what comes next allows it */
    int is_held;
    int last;            /* layer of the key placed last, or -1 */
} builder;

/* The line is in order, and its layers are those of its keys: only memory can be lacking. */
static refusal done(int is_done) { return is_done ? LIVE_OK : LIVE_NO_MEMORY; }

static refusal place_key(builder *b, const item *key)
{
    b->last = key->layer;
    return done(tree_add(&b->l->mem->tree, key->layer, key->key.at, key->key.len, key->cid, key->cid_len));
}

static refusal release(builder *b)
{
    int was_held = b->is_held;
    b->is_held = 0;
    return done(!was_held || tree_add_subtree(&b->l->mem->tree, b->held.layer, b->held.cid));
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
        why = release(b);
        return why ? why : place_key(b, one);
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

refusal tree_rebuild(live *l)
{
    builder b = {.l = l, .last = -1};
    item one;
    refusal why = LIVE_OK;
    l->mem->to_come.count = 0;
    tree_reset(&l->mem->tree);
    while (!why && next_item(&b, &one))
        why = take(&b, &one);
    if (why)
        return why;
    if (b.is_held && b.last < 0)
        return trim(&b);
    why = release(&b);
    return why ? why : done(tree_finish(&l->mem->tree, l->before));
}

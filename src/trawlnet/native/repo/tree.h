/* A repository's tree, made again from its keys: nodes come out as the layers above them need them. */
#ifndef TRAWLNET_TREE_H
#define TRAWLNET_TREE_H

#include "repoblock.h"

typedef struct tree_layer tree_layer;

typedef struct {
    tree_layer *layers[MAX_LAYER + 2];
    buffer node;       /* the one that is being closed */
    buffer *car;       /* frames of all nodes go there, or NULL */
    const char *wrong; /* static text */
    int no_memory;
} tree;

/* Each of these returns 0 for what no tree has, and the tree says why. Keys come in order. */
int tree_add(tree *t, int layer, const uint8_t *key, size_t len, const uint8_t *cid, size_t cid_len);
int tree_add_subtree(tree *t, int layer, const uint8_t digest[DIGEST]);
int tree_finish(tree *t, uint8_t root[DIGEST]);
void tree_reset(tree *t); /* for the next one, in the same memory */
void tree_free(tree *t);
size_t tree_size(const tree *t);

/* The layer of the key that has this digest. */
static inline int digest_layer(const uint8_t digest[DIGEST])
{
    for (int i = 0; i < DIGEST; i++)
        if (digest[i])
            return 4 * i + __builtin_clz((unsigned)digest[i] << 24) / 2;
    return 4 * DIGEST;
}

/* A block as a frame of a CAR; 0 when memory runs out. */
int car_frame(buffer *car, const uint8_t digest[DIGEST], const uint8_t *data, size_t len);

#endif

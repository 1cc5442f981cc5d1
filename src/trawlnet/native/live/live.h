/* One frame of the stream: its bytes in, a commit with its ops taken back out; only module_live.c knows Python. */
#ifndef TRAWLNET_LIVE_H
#define TRAWLNET_LIVE_H

#include "tree.h"

/* In the order of atproto/firehose/refusal.py; a test compares them. */
typedef enum {
    LIVE_OK = 0,
    LIVE_FRAME_TOO_LARGE,
    LIVE_NOT_CBOR,
    LIVE_NOT_JSON,
    LIVE_TRAILING_BYTES,
    LIVE_BAD_HEADER,
    LIVE_BAD_FIELDS,
    LIVE_BAD_SEQ,
    LIVE_BAD_DID,
    LIVE_BAD_REV,
    LIVE_BAD_SINCE,
    LIVE_FUTURE_REV,
    LIVE_LEFT_OUT,
    LIVE_TOO_LARGE,
    LIVE_TOO_MANY_OPS,
    LIVE_BAD_OP,
    LIVE_BAD_PATH,
    LIVE_REPEATED_PATH,
    LIVE_BAD_CAR,
    LIVE_HASH_MISMATCH,
    LIVE_WRONG_ROOT,
    LIVE_MISSING_COMMIT,
    LIVE_BAD_COMMIT,
    LIVE_WRONG_DID,
    LIVE_WRONG_REV,
    LIVE_MISSING_RECORD,
    LIVE_LARGE_RECORD,
    LIVE_BAD_TREE,
    LIVE_PARTIAL_TREE,
    LIVE_NOT_IN_TREE,
    LIVE_WRONG_CID,
    LIVE_STILL_IN_TREE,
    LIVE_WRONG_PREV_DATA,
    LIVE_BAD_SIGNATURE,
    LIVE_REFUSAL_COUNT,
    LIVE_NO_MEMORY /* becomes MemoryError, not a verdict on the frame */
} refusal;

enum {
    MAX_FRAME = 5000000,
    MAX_BLOCKS = 2000000,
    MAX_OPS = 200,
    MAX_RECORD = 1000000,
    MAX_TEXT = 4096,
    MAX_KEYS = 4 * MAX_BLOCKS
};
#define MAX_SEQ ((INT64_C(1) << 53) - 1)
#define FUTURE_TOLERANCE_US INT64_C(300000000)

typedef enum { OP_CREATE, OP_UPDATE, OP_DELETE } op_action;

typedef struct {
    op_action action;
    text path;
    size_t collection_len;
    const uint8_t *cid, *prev; /* digests, or NULL */
    const block *record;       /* NULL for a delete */
} op;

/* What stands in a node, or between nodes that were opened: a key with its record's CID, or a subtree. */
typedef struct {
    text key;            /* .at is NULL for a subtree */
    text low, high;      /* a subtree's keys lie between these; .at is NULL where there is no bound */
    const uint8_t *cid;  /* a key's, whole; a subtree's digest */
    uint8_t cid_len;
    int16_t layer;       /* -1 for a root, which has no parent to say it */
} item;

typedef struct {
    item *at;
    size_t count, cap;
} items;

typedef struct chunk {
    struct chunk *next;
    size_t cap;
    uint8_t bytes[];
} chunk;

/* Memory that one frame leaves to the next. */
typedef struct {
    scratch car;
    buffer unsigned_commit;
    items opened, line, to_come;
    chunk *keys;                   /* texts that do not lie in the frame as they are; pointers to them stay good */
    size_t key_used;               /* of the first chunk */
    tree tree;                     /* the one before, while it is built */
} live_memory;

typedef struct {
    int64_t seq;
    text did, time, rev, since;    /* since.at is NULL where there is none */
    const uint8_t *commit, *prev_data; /* digests; prev_data may be NULL */
    text blocks;
    cursor ops;
    uint64_t op_count;
    int too_big;
} commit_fields;

typedef struct {
    live_memory *mem;
    int skips_hashes;              /* so that a fuzzer comes further than to the first block */
    commit_fields fields;
    repo r;
    op ops[MAX_OPS];
    uint8_t order[MAX_OPS];        /* of ops by path */
    size_t op_count, tree_count;   /* tree_count: ops that the tree is asked about */
    size_t key_bytes;
    uint8_t before[DIGEST];        /* root with all ops taken back */
    int is_inverted;               /* 0 where a prev is lacking */
} live;

/* frame.c */
typedef struct {
    int64_t op;
    text kind;                     /* of op 1 */
    const uint8_t *payload;
} frame_head;
refusal frame_read(const uint8_t *at, size_t len, frame_head *found);
refusal fields_read(const uint8_t *at, size_t len, commit_fields *found);
refusal fields_check(const commit_fields *f, int64_t now_us);
int same_text(text a, const char *name);

/* ops.c */
refusal ops_read(live *l);

/* node.c */
refusal node_open(live *l, const item *tree, items *into);
int items_push(items *list, const item *one);
int item_is_key(const item *one);
int compare_texts(text a, text b);

/* inversion.c */
refusal tree_take_back(live *l);

/* rebuild.c */
refusal tree_rebuild(live *l);

/* check.c: `l` comes zeroed but for its memory. */
refusal live_check(live *l, const uint8_t *payload, size_t len, int64_t now_us, const uint64_t seed[4]);
size_t live_memory_size(const live_memory *mem);
void live_memory_free(live_memory *mem);

#endif

/* One extraction: CAR bytes in, one buffer of [rkey][json] entries out; nothing here but module.c knows Python. */
#ifndef TRAWLNET_REPOBLOCK_H
#define TRAWLNET_REPOBLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The enums below are mirrored in repocontent.py in the same order; a test compares them. */
typedef enum {
    REPO_OK = 0,
    REPO_TRUNCATED,           /* the CAR ends inside its header or a frame */
    REPO_BAD_CAR,             /* framing, header or a block's CID is malformed */
    REPO_HASH_MISMATCH,       /* a block is not what its CID says */
    REPO_MISSING_BLOCK,       /* the commit, a tree node or a record is not in the CAR */
    REPO_BAD_COMMIT,
    REPO_UNSUPPORTED_VERSION, /* a well-formed commit of another repo version */
    REPO_BAD_TREE,
    REPO_OVER_LIMIT,
    REPO_ERROR_COUNT,
    REPO_NO_MEMORY            /* becomes MemoryError, not a verdict on the repo */
} repo_error;

typedef enum {
    DROP_NONE = 0,
    DROP_BAD_PATH,       /* the key has no "/" */
    DROP_BAD_COLLECTION, /* not an NSID */
    DROP_BAD_RKEY,
    DROP_BAD_CID,        /* a link that is no CIDv1; for the record itself: not DAG-CBOR under SHA-256 */
    DROP_BAD_CBOR,
    DROP_BAD_UTF8,
    DROP_NOT_A_MAP,
    DROP_DUPLICATE_KEY,
    DROP_INT_RANGE,      /* below -2^63 */
    DROP_TOO_DEEP,
    DROP_TOO_LARGE,      /* record bytes, JSON bytes or entries of a container */
    DROP_COUNT,
    DROP_NO_MEMORY
} drop_reason;

enum {
    MAX_NESTING = 32,
    MAX_CONTAINER = 131072,
    MAX_KEY = 1024,          /* longest legal key is 317 + 1 + 512 */
    MAX_COLLECTIONS = 65535, /* the archive counts them in a u16 */
    MAX_COMMIT_FIELDS = 23,
    MAX_CID = 100,
    MAX_LAYER = 128,         /* SHA-256 has 256 bits, a layer is two of them */
    DIGEST = 32,
    CID_SIZE = 36,
    SIGNATURE = 64,
    FRAME_COST = 64,         /* what one frame costs against memory_limit: its entry and its index slots */
    COLLECTION_COST = 64
};

typedef struct {
    uint8_t *data;
    size_t len, cap;
} buffer;

typedef struct {
    const char *text;
    size_t len;
} pattern;

typedef struct {
    int verify_hashes;
    int keep_cids;
    int proof;               /* keep what gives the CIDs, the tree and the commit back, see proof.h */
    size_t max_record;
    size_t max_json;
    size_t memory_limit;
    const pattern *patterns; /* none means every collection */
    size_t pattern_count;
    uint64_t seed[4];        /* keys the block index, so that nobody can aim for collisions */
} repo_options;

typedef struct {
    size_t start;        /* of the data; the digest is the 32 bytes before it */
    uint32_t len;
    uint8_t indexed : 1; /* its CID is DAG-CBOR under SHA-256 */
    uint8_t hashed : 1;  /* its CID is under SHA-256, so the data can be checked */
    uint8_t dropped;     /* the drop_reason an earlier reference ended in */
    uint8_t opened;      /* as a node of the tree */
    uint8_t odd;         /* as a record: its JSON does not give its bytes back */
    union {
        uint64_t hash;   /* of the digest, until the index is built */
        size_t json;     /* then, where the length of its JSON stands in repo.out; 0 before it was read */
    };
} block;

typedef struct {
    size_t name;         /* offset in repo.names */
    uint16_t name_len;
    uint32_t records;
    size_t start, end;   /* range of repo.out */
} collection;

typedef struct {
    uint32_t tag;
    uint32_t number;     /* block number + 1; 0 is an empty slot */
} slot;

/* One entry of a tree node. */
typedef struct {
    const uint8_t *suffix;
    const uint8_t *value;   /* digest of the record, or NULL for a CID we cannot follow */
    const uint8_t *subtree; /* digest, or NULL */
    union {
        block *record;      /* what car_guess found for the value */
        const uint8_t *cid; /* where there is none: what stands in its place */
    };
    block *child;           /* what car_guess found for the subtree */
    uint32_t suffix_len;
    uint16_t prefix_len;
    uint16_t cid_len;
} entry;

typedef struct {
    const uint8_t *at;
    size_t len;
} text;

/* Memory that one extraction leaves to the next: fresh pages cost as much as a fifth of the work. */
typedef struct {
    block *blocks;
    slot *slots;
    entry *entries;
    text *keys;      /* of the maps around the value being read */
    uint32_t *marks; /* of the keys of one map, by their hash */
    size_t block_cap, slot_cap, entry_cap, key_cap, mark_cap;
} scratch;

typedef struct {
    const uint8_t *car;
    size_t car_len;
    repo_options options;
    scratch *mem;

    size_t block_count;
    size_t slot_mask;

    const uint8_t *root, *data_root; /* digests, in the CAR like the texts below */
    const uint8_t *did, *rev, *signature;
    size_t did_len, rev_len;
    buffer unsigned_commit;

    buffer out;
    buffer names;
    collection *collections;
    size_t collection_count, collection_cap;
    uint64_t records, filtered, dropped[DROP_COUNT];
    size_t cost;

    buffer sums, exceptions;       /* see proof.h */
    unsigned __int128 sum, weighted; /* of the group of records that is under way */
    uint64_t since_exception;      /* records that were kept behind the last exception */
    uint64_t told;                 /* records that were kept, or dropped and named among the exceptions */
    int odd_tree;

    const char *detail;  /* static text */
    size_t place;        /* byte offset in the CAR */
} repo;

typedef struct {
    const uint8_t *at, *end;
} cursor;

typedef struct {
    uint64_t arg;
    uint8_t major, info;
} head;

/* extract.c */
repo_error repo_extract(repo *r, const uint8_t *car, size_t len, const repo_options *options, scratch *mem);
void repo_free(repo *r);
size_t scratch_size(const scratch *mem);
void scratch_free(scratch *mem);
int grow(void *array, size_t *cap, size_t least, size_t item);
repo_error repo_fail(repo *r, repo_error kind, const char *detail, const uint8_t *at);
repo_error repo_charge(repo *r, size_t bytes, const uint8_t *at);
int buffer_grow(buffer *b, size_t extra);
int pattern_matches(const pattern *p, const char *name, size_t len);

static inline int buffer_reserve(buffer *b, size_t extra)
{
    return b->cap - b->len >= extra || buffer_grow(b, extra);
}

/* For a few dozen bytes quicker than calling memcpy; reads and writes up to COPY_SLACK bytes more than it was asked to. */
#ifndef COPY_SLACK
#define COPY_SLACK 16
#endif
static inline void copy_short(uint8_t *to, const uint8_t *from, size_t len)
{
    for (size_t i = 0; i < len; i += COPY_SLACK)
        memcpy(to + i, from + i, COPY_SLACK);
}

/* The first bytes, eight at most and zeros behind the last, as a number that sorts as they do; eight can be read. */
static inline uint64_t first_bytes(const uint8_t *s, size_t len)
{
    uint64_t v;
    memcpy(&v, s, sizeof v);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return len < sizeof v ? v & ~(UINT64_MAX >> 8 * len) : v;
}

/* The product folded to 64 bits: every input bit reaches every output bit. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* car.c */
repo_error car_load(repo *r);
block *car_find(const repo *r, const uint8_t digest[DIGEST]);
block *car_guess(const repo *r, const uint8_t digest[DIGEST]);
block *car_confirm(const repo *r, block *guess, const uint8_t digest[DIGEST]);
size_t cid_parse(const uint8_t *at, size_t len, int *is_sha256);
extern const uint8_t CID_PREFIX[4];

/* cbor.c */
int cbor_skip(cursor *c, int depth);
int cbor_link(cursor *c, const uint8_t **cid, size_t *len);
int cbor_sha256_link(cursor *c, const uint8_t **digest);

/* Inline, for they run several times a record. Each returns 0 for bytes that are not DAG-CBOR. */
static inline int cbor_head(cursor *c, head *h)
{
    if (c->at == c->end)
        return 0;
    uint8_t first = *c->at++;
    h->major = first >> 5;
    h->info = first & 31;
    if (h->info < 24) {
        h->arg = h->info;
        return 1;
    }
    if (h->info == 24 && c->at != c->end) {
        h->arg = *c->at++;
        return 1;
    }
    /* 28 to 31 are reserved or of indefinite length. */
    if (h->info > 27)
        return 0;
    size_t width = (size_t)1 << (h->info - 24);
    if ((size_t)(c->end - c->at) < width)
        return 0;
    h->arg = 0;
    for (size_t i = 0; i < width; i++)
        h->arg = h->arg << 8 | *c->at++;
    return 1;
}

/* Whether fewer bytes would have done for the head of anything but a float. */
static inline int is_overlong(head h)
{
    return h.info == 24 ? h.arg < 24 : h.info > 24 && h.arg >> (4 << (h.info - 24)) == 0;
}

/* Bytes of the shortest head for a length or number. */
static inline size_t head_bytes(uint64_t arg)
{
    return 1 + (arg > 23) + (arg > 0xff) + 2 * (arg > 0xffff) + 4 * (arg > 0xffffffff);
}

static inline int cbor_span(cursor *c, uint8_t major, const uint8_t **at, size_t *len)
{
    head h;
    if (!cbor_head(c, &h) || h.major != major || h.arg > (size_t)(c->end - c->at))
        return 0;
    *at = c->at;
    *len = (size_t)h.arg;
    c->at += h.arg;
    return 1;
}

/* commit.c */
repo_error commit_load(repo *r);

/* mst.c */
repo_error mst_walk(repo *r);

/* record.c */
/* One entry of the tree, whichever node it stands in. */
typedef struct {
    const uint8_t *key;
    size_t len;
    block *record;      /* NULL for a CID that is not DAG-CBOR under SHA-256 */
    const uint8_t *cid;
    size_t cid_len;
} leaf;

repo_error record_add(repo *r, const leaf *l);

/* cbor_json.c */
/* `odd` becomes 1 where the JSON does not give the same bytes back. */
drop_reason json_from_cbor(const repo *r, const uint8_t *at, size_t len, buffer *out, uint8_t *odd);

/* float.c */
size_t json_double(double value, char text[32]);

/* syntax.c */
int is_nsid(const uint8_t *s, size_t len);
int is_rkey(const uint8_t *s, size_t len); /* COPY_SLACK bytes more can be read */
int is_tid(const uint8_t *s, size_t len);
int is_did(const uint8_t *s, size_t len);

/* sha256.c */
typedef struct {
    const uint8_t *data;
    size_t len;
    uint8_t digest[DIGEST];
} hash_job;

void sha256(const uint8_t *data, size_t len, uint8_t digest[DIGEST]);
void sha256_all(hash_job *jobs, size_t count);
void sha256_portable(const uint8_t *data, size_t len, uint8_t digest[DIGEST]);
int sha256_accelerated(void);

#endif

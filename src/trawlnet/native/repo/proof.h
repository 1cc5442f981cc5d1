/* What proves a repository again from its records: two sums over each group of them, which tell the one that was
 * changed, and exceptions: whatever the records do not give back by themselves. */
#ifndef TRAWLNET_PROOF_H
#define TRAWLNET_PROOF_H

#include "repoblock.h"

/* Each exception is a byte that says its kind, a u32 of records that were kept since the one before, and: */
typedef enum {
    EXCEPT_RECORD = 1,  /* u32 length and bytes of the next record, whose JSON does not give them */
    EXCEPT_LEFT_OUT,    /* u16 length and path, u8 length and CID of a record that is not in the archive */
    EXCEPT_SUBTREE,     /* u8 layer and digest of a node whose records were all filtered out */
    EXCEPT_COMMIT,      /* u32 length and bytes of a commit that is not of the usual form */
    EXCEPT_NODE         /* u32 length and bytes of a node, the root first; all of them, where one is odd */
} exception_kind;

enum {
    GROUP = 256,              /* records */
    SUMS_BYTES = 16,          /* of each group: the sum of their numbers, and that of each times its place from 1 */
    KEY_BYTES = 34,           /* curve and point */
    LONGEST_LEFT_OUT = 255    /* bytes of a CID; a tree with a longer one keeps its nodes */
};

#define SUM_MODULUS (((uint64_t)1 << 61) - 1)

/* A record's number is what its digest begins with. */
static inline uint64_t digest_number(const uint8_t digest[DIGEST])
{
    uint64_t v;
    memcpy(&v, digest, sizeof v);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v & SUM_MODULUS;
}

/* Of a number below 2^83. */
static inline uint64_t reduced(unsigned __int128 v)
{
    uint64_t folded = (uint64_t)(v & SUM_MODULUS) + (uint64_t)(v >> 61);
    return folded >= SUM_MODULUS ? folded - SUM_MODULUS : folded;
}

/* Where a node began, so that one whose records were all filtered out can stand for them. */
typedef struct {
    uint64_t told, since_exception;
    size_t exceptions;
} proof_mark;

static inline proof_mark proof_begin(const repo *r)
{
    return (proof_mark){r->told, r->since_exception, r->exceptions.len};
}

/* proof.c; of the commit, every record, every node, and all */
repo_error proof_commit(repo *r, const uint8_t *commit, size_t len);
repo_error proof_seldom(repo *r, const block *b); /* one that ends its group, or is odd */
repo_error proof_left_out(repo *r, const leaf *l);
repo_error proof_end(repo *r, const proof_mark *mark, int layer, const uint8_t digest[DIGEST]);
repo_error proof_finish(repo *r);
size_t usual_commit(uint8_t *to, text did, text rev, const uint8_t signature[SIGNATURE], const uint8_t root[DIGEST]);

enum { COMMIT_ROOM = 2048 + 256 }; /* of usual_commit */

/* A record that was kept, and is counted already. */
static inline repo_error proof_kept(repo *r, const block *b)
{
    uint64_t number = digest_number(r->car + b->start - DIGEST), place = (r->records - 1) % GROUP + 1;
    r->sum += number;
    r->weighted += (unsigned __int128)number * place;
    if (place == GROUP || b->odd)
        return proof_seldom(r, b);
    r->since_exception++;
    return REPO_OK;
}

#endif

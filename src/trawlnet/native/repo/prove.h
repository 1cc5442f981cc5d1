/* From the records of an archive back to CIDs, tree and root. */
#ifndef TRAWLNET_PROVE_H
#define TRAWLNET_PROVE_H

#include "proof.h"
#include "tree.h"

typedef struct {
    text name;
    uint64_t records;
    text entries; /* [u16 length, rkey][u32 length, JSON] for each */
} proven_run;

typedef struct {
    buffer sums;        /* as proof.h has them */
    buffer digests;     /* of every record, where they are asked for */
    buffer car;         /* frames of all records and nodes, where they are asked for */
    uint8_t root[DIGEST];
    const char *wrong;  /* static text, or NULL */
    uint64_t records;   /* proven, or before the one that is wrong */
    int no_memory;
} proof_result;

/* `runs` come in the order of the tree, that is of their names with a slash behind. `exceptions` are unpacked. */
void prove(proof_result *p, const proven_run *runs, size_t run_count, text exceptions, const uint64_t seed[4],
           int wants_digests, int wants_car);
void proof_result_free(proof_result *p);

#endif

/* What the files of the Python face share; the GIL is held around all of it. */
#ifndef TRAWLNET_MODULE_H
#define TRAWLNET_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "block.h"
#include "repoblock.h"

/* Repositories that one call packs. */
enum { PACKED_AT_ONCE = 16 };

typedef struct {
    PyObject_HEAD
    int busy; /* guarded by the GIL: the context is one thread's at a time */
    zstd_context *context;
    /* Left by one call to the next, as far as it is not too large. */
    buffer blocks[PACKED_AT_ONCE];
    buffer json;
    scratch mem;
} BlockEncoder;

extern zstd zstd_library;      /* module_block.c; written once, before the first encoder is made */
extern uint64_t index_seed[4]; /* module.c */

int read_patterns(PyObject *names, pattern **patterns, size_t *count);
PyObject *dropped_tuple(const repo *r);
void encoder_tidy(BlockEncoder *e);
extern const char encoder_pack_doc[]; /* module_pack.c */
PyObject *encoder_pack(PyObject *self, PyObject *args);

#endif

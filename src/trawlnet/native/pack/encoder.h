/* The encoder of blocks, as the files of its Python face share it; the GIL is held around all of it. */
#ifndef TRAWLNET_ENCODER_H
#define TRAWLNET_ENCODER_H

#include "block.h"
#include "module.h"

/* Repositories that one call packs. */
enum { PACKED_AT_ONCE = 16 };

typedef struct {
    PyObject_HEAD
    int busy; /* guarded by the GIL: the context is one thread's at a time */
    ZSTD_CCtx *context;
    /* Left by one call to the next, as far as it is not too large. */
    buffer blocks[PACKED_AT_ONCE];
    buffer json;
    scratch mem;
} BlockEncoder;

void encoder_tidy(BlockEncoder *e);
extern const char encoder_pack_doc[]; /* module_pack.c */
PyObject *encoder_pack(PyObject *self, PyObject *args);

#endif

/* zstd for Python: what both directions share. */
#ifndef TRAWLNET_FRAMES_H
#define TRAWLNET_FRAMES_H

#include <zstd.h>

#include "module.h"

enum { LARGEST_KEPT = 8 << 20 }; /* bytes of each kind of memory that wait for the next call */

extern PyObject *zstd_error; /* module_zstd.c; made once, with the module */

PyObject *zstd_failed(size_t code);          /* sets the exception; NULL */
int add_frame_reader(PyObject *module);      /* module_unzstd.c */
void keep_small(buffer *b);                  /* module_block.c */
int claim(int *busy);                        /* whether no other thread is inside; else sets the exception */

#endif

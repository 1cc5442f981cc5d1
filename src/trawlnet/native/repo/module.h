/* What the files of the Python face share; the GIL is held around all of it. */
#ifndef TRAWLNET_MODULE_H
#define TRAWLNET_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "repoblock.h"

extern uint64_t index_seed[4]; /* module.c */

int read_patterns(PyObject *names, pattern **patterns, size_t *count);
PyObject *dropped_tuple(const repo *r);

#endif

/* Links that were found, known by their URLs. */
#ifndef TRAWLNET_MERGE_H
#define TRAWLNET_MERGE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject *root;   /* scheme and authority, ASCII */
    PyObject *folder; /* up to the last slash of the path, ASCII */
    PyObject *join;   /* the URL of any other href, or None */
    Py_ssize_t most;  /* characters of a URL */
} place;

void merge_init(void);

/* A list of `kind`, a tuple type of five, in the order of the page. */
PyObject *merge_links(const place *base, PyObject *raws, PyTypeObject *kind);

#endif

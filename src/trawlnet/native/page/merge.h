/* Links that were found, known by their URLs. */
#ifndef TRAWLNET_MERGE_H
#define TRAWLNET_MERGE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    const char *at;
    Py_ssize_t length;
} ascii;

typedef struct {
    ascii root;      /* scheme and authority */
    ascii folder;    /* up to the last slash of the path */
    PyObject *join;  /* the URL of any other href, or None */
    Py_ssize_t most; /* characters of a URL */
} place;

/* Whether the text is ASCII; `into` lives as long as the text. */
int ascii_of(PyObject *text, ascii *into);

void merge_init(void);

/* A list of `kind`, a tuple type of five, in the order of the page. */
PyObject *merge_links(const place *base, PyObject *raws, PyTypeObject *kind);

#endif

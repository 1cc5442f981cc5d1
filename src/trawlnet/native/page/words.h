/* The words of an anchor: pieces of text put together, with one space wherever there is any. */
#ifndef TRAWLNET_WORDS_H
#define TRAWLNET_WORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "lexbor.h"

enum { SLACK = 2000, TEXT_MAX = 200, SIDE_MAX = 60 }; /* characters; the same as in htmllinks_plain.py */

/* Pairs of an anchor's text and its context, taken while there is budget left: anchors can be nested so that one
   text is in thousands of them. Both are new references; 0, or -1 with an exception. */
int words_of(const lexbor *lxb, lxb_document *document, lxb_node *anchor, int around, Py_ssize_t *budget,
             PyObject **text, PyObject **context);

#endif

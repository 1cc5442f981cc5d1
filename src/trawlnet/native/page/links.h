/* The links of one parsed page. */
#ifndef TRAWLNET_LINKS_H
#define TRAWLNET_LINKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "lexbor.h"

enum { TAGS = 7, TAG_IDS = 256 /* Lexbor knows fewer tags; of others the number is larger */ };

typedef struct {
    signed char of[TAG_IDS]; /* by the number that this Lexbor gives a tag; -1: another */
    PyObject *names[TAGS];
} tags;

typedef struct {
    const lexbor *lxb;
    const tags *tags;
    lxb_document *document;
    PyObject *links;   /* (href, tag, nofollow, text, context) */
    PyObject *others;  /* (links before it, tag, attributes) of <base>, <link> and <meta> */
    PyObject *nothing; /* an empty text */
    unsigned wanted;   /* a bit for each tag */
    Py_ssize_t most;   /* links */
    Py_ssize_t budget; /* characters of words that are looked at */
    int words, around;
} page;

int tags_init(const lexbor *lxb, tags *known);

/* Fills both lists; -1 with an exception. */
int read_links(page *p);

#endif

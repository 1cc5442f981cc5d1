/* The few functions of Lexbor that reading a page needs, found in the library that selectolax brings along.
   All of them take and give opaque pointers, so that nothing here depends on how Lexbor lays out its structs. */
#ifndef TRAWLNET_LEXBOR_H
#define TRAWLNET_LEXBOR_H

#include <stddef.h>
#include <stdint.h>

typedef struct lxb_document lxb_document; /* also the root node of its tree */
typedef struct lxb_node lxb_node;
typedef struct lxb_attr lxb_attr;

enum { NODE_ELEMENT = 1, NODE_TEXT = 3 };    /* numbers of the DOM standard */
enum { WITHOUT_EVENTS = 1 };                 /* mirroring <option>s is quadratic */

typedef struct {
    lxb_document *(*document_create)(void);
    lxb_document *(*document_destroy)(lxb_document *);
    void (*document_clean)(lxb_document *);
    void (*document_options)(lxb_document *, uint32_t);
    unsigned (*document_parse)(lxb_document *, const unsigned char *, size_t);
    void *(*text_free)(lxb_document *, unsigned char *);
    uintptr_t (*tag_by_name)(void *, const unsigned char *, size_t);
    lxb_node *(*first_child)(lxb_node *);
    lxb_node *(*next)(lxb_node *);
    lxb_node *(*prev)(lxb_node *);
    lxb_node *(*parent)(lxb_node *);
    uintptr_t (*tag)(lxb_node *);
    int (*type)(lxb_node *);
    unsigned char *(*text)(lxb_node *, size_t *);
    lxb_attr *(*first_attribute)(lxb_node *);
    lxb_attr *(*next_attribute)(lxb_attr *);
    const unsigned char *(*attribute_name)(lxb_attr *, size_t *);
    const unsigned char *(*attribute_value)(lxb_attr *, size_t *);
} lexbor;

/* NULL, or the name of what is missing. */
const char *lexbor_load(lexbor *into, const char *library);

#endif

/* From a page's tree to its links as they stand there, in the order of the page. */
#include "links.h"

#include <string.h>

#include "characters.h"
#include "words.h"

/* The elements that lead somewhere; the last three say it in ways of their own. */
enum { TAG_A, TAG_AREA, TAG_IFRAME, TAG_FRAME, TAG_BASE, TAG_LINK, TAG_META };
static const char *const NAMES[TAGS] = {"a", "area", "iframe", "frame", "base", "link", "meta"};

int tags_init(const lexbor *lxb, tags *known)
{
    memset(known->of, -1, sizeof known->of);
    for (int i = 0; i < TAGS; i++) {
        const uintptr_t id = lxb->tag_by_name(NULL, (const unsigned char *)NAMES[i], strlen(NAMES[i]));
        if (id < TAG_IDS)
            known->of[id] = (signed char)i;
        known->names[i] = PyUnicode_InternFromString(NAMES[i]);
        if (!known->names[i])
            return -1;
    }
    return 0;
}

static int tag_of(const tags *known, uintptr_t id) { return id < TAG_IDS ? known->of[id] : -1; }

static lxb_node *following(const lexbor *lxb, lxb_node *node, lxb_node *root)
{
    lxb_node *found = lxb->first_child(node);
    while (!found && node != root) {
        found = lxb->next(node);
        node = lxb->parent(node);
    }
    return found;
}

static PyObject *decoded(const unsigned char *bytes, size_t size)
{
    return PyUnicode_DecodeUTF8((const char *)bytes, (Py_ssize_t)size, "replace");
}

static int is(const unsigned char *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && memcmp(name, wanted, size) == 0;
}

static char lowered(Py_UCS4 c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* Whether a word of `rel` is "nofollow". */
static int says_nofollow(const characters *rel)
{
    static const char wanted[] = "nofollow";
    const Py_ssize_t size = (Py_ssize_t)sizeof wanted - 1;
    Py_ssize_t matched = 0; /* -1: this word is another */
    for (Py_ssize_t i = 0; i < rel->length; i++) {
        Py_UCS4 character = character_at(rel, i);
        if (is_space(character)) {
            if (matched == size)
                return 1;
            matched = 0;
        } else if (character < 0x80 && matched >= 0 && matched < size && lowered(character) == wanted[matched]) {
            matched++;
        } else {
            matched = -1;
        }
    }
    return matched == size;
}

typedef struct {
    PyObject *href; /* NULL: none, or none that leads off the page */
    int nofollow;
} target;

static int target_of(const lexbor *lxb, lxb_node *node, const char *wanted, target *found)
{
    size_t name_size, size;
    *found = (target){0};
    for (lxb_attr *attr = lxb->first_attribute(node); attr; attr = lxb->next_attribute(attr)) {
        const unsigned char *name = lxb->attribute_name(attr, &name_size);
        int is_target = name && is(name, name_size, wanted), is_rel = name && is(name, name_size, "rel");
        if (!is_target && !is_rel)
            continue;
        const unsigned char *value = lxb->attribute_value(attr, &size);
        if (!value || !size || (is_target && *value == '#'))
            continue;
        if (is_rel) {
            characters rel;
            if (characters_of(value, size, &rel) < 0)
                return -1;
            found->nofollow = says_nofollow(&rel);
            characters_free(&rel);
        } else if (!(found->href = decoded(value, size))) {
            return -1;
        }
    }
    return 0;
}

static PyObject *attributes_of(const lexbor *lxb, lxb_node *node)
{
    PyObject *all = PyDict_New();
    size_t name_size, size;
    for (lxb_attr *attr = lxb->first_attribute(node); all && attr; attr = lxb->next_attribute(attr)) {
        const unsigned char *name = lxb->attribute_name(attr, &name_size);
        const unsigned char *value = lxb->attribute_value(attr, &size);
        PyObject *key = decoded(name, name ? name_size : 0);
        PyObject *text = value ? decoded(value, size) : Py_NewRef(Py_None);
        if (!key || !text || PyDict_SetItem(all, key, text) < 0)
            Py_CLEAR(all);
        Py_XDECREF(key);
        Py_XDECREF(text);
    }
    return all;
}

/* Takes the item over. */
static int append(PyObject *list, PyObject *item)
{
    int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

static int add_link(page *p, lxb_node *node, int tag)
{
    target to;
    PyObject *text, *context;
    int has_source = tag == TAG_IFRAME || tag == TAG_FRAME;
    if (PyList_Size(p->links) >= p->most)
        return 0;
    if (target_of(p->lxb, node, has_source ? "src" : "href", &to) < 0) {
        Py_XDECREF(to.href);
        return -1;
    }
    if (!to.href)
        return 0;
    if (tag == TAG_A && p->words) {
        if (words_of(p->lxb, p->document, node, p->around, &p->budget, &text, &context) < 0) {
            Py_XDECREF(text);
            Py_DECREF(to.href);
            return -1;
        }
    } else {
        text = Py_NewRef(p->nothing);
        context = Py_NewRef(p->nothing);
    }
    PyObject *link = PyTuple_New(5);
    if (!link) {
        Py_DECREF(to.href);
        Py_DECREF(text);
        Py_DECREF(context);
        return -1;
    }
    PyTuple_SetItem(link, 0, to.href);
    PyTuple_SetItem(link, 1, Py_NewRef(p->tags->names[tag]));
    PyTuple_SetItem(link, 2, PyBool_FromLong(to.nofollow));
    PyTuple_SetItem(link, 3, text);
    PyTuple_SetItem(link, 4, context);
    return append(p->links, link);
}

static int add_other(page *p, lxb_node *node, int tag)
{
    PyObject *attributes = attributes_of(p->lxb, node);
    if (!attributes)
        return -1;
    return append(p->others, Py_BuildValue("(nON)", PyList_Size(p->links), p->tags->names[tag], attributes));
}

int read_links(page *p)
{
    lxb_node *root = (lxb_node *)p->document;
    for (lxb_node *node = root; node; node = following(p->lxb, node, root)) {
        int tag = tag_of(p->tags, p->lxb->tag(node));
        if (tag < 0 || !(p->wanted & 1u << tag))
            continue;
        if ((tag >= TAG_BASE ? add_other(p, node, tag) : add_link(p, node, tag)) < 0)
            return -1;
    }
    return 0;
}

/* From hrefs to request URLs, one link for each. */
#include "merge.h"

#include <string.h>

enum { FIRST = 1, REST = 2, QUERY = 4, ALONE = 8 };

static unsigned char classes[128];

void merge_init(void)
{
    const char *start = "~!$&'()*+,;=@-", *query = ".~=&%+/:;,@!$()*?-";
    for (int c = 0; c < 128; c++) {
        int word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
        classes[c] = (unsigned char)(word ? FIRST | REST | QUERY | ALONE : 0);
        if (c && strchr(start, c))
            classes[c] |= FIRST | REST;
        if (c == '.' || c == '%')
            classes[c] |= REST;
        if (c && strchr(query, c))
            classes[c] |= QUERY;
        if (c == '~' || c == '-')
            classes[c] |= ALONE;
    }
}

/* Whether joining is adding text: a path that parsing leaves as it is, with a query or without. */
static int is_plain(const char *text, Py_ssize_t length)
{
    Py_ssize_t i = 0;
    int wanted = FIRST;
    if (!length || !(text[0] == '/' || classes[(unsigned char)text[0]] & ALONE))
        return 0;
    if (text[0] == '/')
        i = 1;
    for (; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (wanted == QUERY) {
            if (!(classes[c] & QUERY))
                return 0;
        } else if (c == '?') {
            wanted = QUERY;
        } else if (c == '/' && wanted == REST) {
            wanted = FIRST;
        } else if (classes[c] & wanted) {
            wanted = REST;
        } else {
            return 0;
        }
    }
    return 1;
}

int ascii_of(PyObject *text, ascii *into)
{
    into->at = PyUnicode_AsUTF8AndSize(text, &into->length);
    if (!into->at)
        PyErr_Clear(); /* a surrogate on its own */
    return into->at && into->length == PyUnicode_GetLength(text);
}

static PyObject *put_together(const ascii *start, const char *rest, Py_ssize_t length)
{
    char usual[512];
    const size_t size = (size_t)(start->length + length);
    char *url = size <= sizeof usual ? usual : PyMem_Malloc(size);
    if (!url)
        return PyErr_NoMemory();
    memcpy(url, start->at, (size_t)start->length);
    memcpy(url + start->length, rest, (size_t)length);
    PyObject *result = PyUnicode_FromStringAndSize(url, (Py_ssize_t)size);
    if (url != usual)
        PyMem_Free(url);
    return result;
}

/* The request URL; None for what is no page's URL. */
static PyObject *url_of(const place *base, PyObject *href)
{
    ascii text;
    if (!ascii_of(href, &text))
        return PyObject_CallFunctionObjArgs(base->join, href, NULL);
    const Py_ssize_t root = base->root.length, folder = base->folder.length;
    const char *fragment = memchr(text.at, '#', (size_t)text.length);
    Py_ssize_t length = fragment ? fragment - text.at : text.length;
    if (is_plain(text.at, length)) {
        if ((root > folder ? root : folder) + length <= base->most)
            return put_together(text.at[0] == '/' ? &base->root : &base->folder, text.at, length);
    } else if (length > root && length <= base->most && text.at[root] == '/' &&
               memcmp(text.at, base->root.at, (size_t)root) == 0 && is_plain(text.at + root, length - root)) {
        return put_together(&base->root, text.at + root, length - root);
    }
    return PyObject_CallFunctionObjArgs(base->join, href, NULL);
}

/* The link as it is known by its URL. */
static PyObject *named(PyTypeObject *kind, PyObject *url, PyObject *raw, PyObject *nofollow)
{
    PyObject *link = ((allocfunc)PyType_GetSlot(kind, Py_tp_alloc))(kind, 5);
    if (!link)
        return NULL;
    PyTuple_SetItem(link, 0, Py_NewRef(url));
    PyTuple_SetItem(link, 1, Py_NewRef(PyTuple_GetItem(raw, 1)));
    PyTuple_SetItem(link, 2, Py_NewRef(nofollow));
    PyTuple_SetItem(link, 3, Py_NewRef(PyTuple_GetItem(raw, 3)));
    PyTuple_SetItem(link, 4, Py_NewRef(PyTuple_GetItem(raw, 4)));
    return link;
}

static int add_link(PyObject *links, PyTypeObject *kind, PyObject *url, PyObject *raw)
{
    PyObject *nofollow = PyTuple_GetItem(raw, 2), *text = PyTuple_GetItem(raw, 3);
    PyObject *known = PyDict_GetItemWithError(links, url);
    if (!known && PyErr_Occurred())
        return -1;
    if (known) {
        /* One link that may be followed is enough; the first one with words names it. */
        int frees = PyTuple_GetItem(known, 2) == Py_True && nofollow == Py_False;
        int names = PyUnicode_GetLength(PyTuple_GetItem(known, 3)) == 0 && PyUnicode_GetLength(text) > 0;
        if (!frees && !names)
            return 0;
        if (PyTuple_GetItem(known, 2) == Py_False)
            nofollow = Py_False;
    }
    PyObject *link = named(kind, url, raw, nofollow);
    int failed = !link || PyDict_SetItem(links, url, link) < 0;
    Py_XDECREF(link);
    return failed ? -1 : 0;
}

static int is_raw(PyObject *raw)
{
    return PyTuple_Check(raw) && PyTuple_Size(raw) == 5 && PyUnicode_Check(PyTuple_GetItem(raw, 0)) &&
           PyUnicode_Check(PyTuple_GetItem(raw, 3));
}

PyObject *merge_links(const place *base, PyObject *raws, PyTypeObject *kind)
{
    PyObject *links = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; links && i < PyList_Size(raws); i++) {
        PyObject *raw = Py_NewRef(PyList_GetItem(raws, i)); /* held while Python joins */
        if (!is_raw(raw)) {
            PyErr_SetString(PyExc_TypeError, "a link is (href, tag, nofollow, text, context)");
            Py_DECREF(raw);
            Py_CLEAR(links);
            break;
        }
        PyObject *url = url_of(base, PyTuple_GetItem(raw, 0));
        if (!url || (url != Py_None && add_link(links, kind, url, raw) < 0))
            Py_CLEAR(links);
        Py_XDECREF(url);
        Py_DECREF(raw);
    }
    if (links)
        result = PyDict_Values(links);
    Py_XDECREF(links);
    return result;
}

/* From hrefs to request URLs, one link for each. */
#include "merge.h"

enum { FIRST = 1, REST = 2, QUERY = 4, ALONE = 8 };

static unsigned char classes[128];

void merge_init(void)
{
    const char *start = "~!$&'()*+,;=@-", *query = ".~=&%+/:;,@!$()*?-";
    for (int c = 0; c < 128; c++) {
        int word = Py_ISALNUM(c) || c == '_';
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
static int is_plain(const Py_UCS1 *text, Py_ssize_t length)
{
    Py_ssize_t i = 0;
    int wanted = FIRST;
    if (!length || !(text[0] == '/' || classes[text[0]] & ALONE))
        return 0;
    if (text[0] == '/')
        i = 1;
    for (; i < length; i++) {
        Py_UCS1 c = text[i];
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

static PyObject *put_together(PyObject *start, const Py_UCS1 *rest, Py_ssize_t length)
{
    Py_ssize_t before = PyUnicode_GET_LENGTH(start);
    PyObject *url = PyUnicode_New(before + length, 0x7f);
    if (url) {
        memcpy(PyUnicode_1BYTE_DATA(url), PyUnicode_1BYTE_DATA(start), (size_t)before);
        memcpy(PyUnicode_1BYTE_DATA(url) + before, rest, (size_t)length);
    }
    return url;
}

/* The request URL; None for what is no page's URL. */
static PyObject *url_of(const place *base, PyObject *href)
{
    if (!PyUnicode_IS_ASCII(href))
        return PyObject_CallOneArg(base->join, href);
    const Py_UCS1 *text = PyUnicode_1BYTE_DATA(href);
    Py_ssize_t length = PyUnicode_GET_LENGTH(href), root = PyUnicode_GET_LENGTH(base->root);
    Py_ssize_t folder = PyUnicode_GET_LENGTH(base->folder);
    const Py_UCS1 *fragment = memchr(text, '#', (size_t)length);
    if (fragment)
        length = fragment - text;
    if (is_plain(text, length)) {
        if ((root > folder ? root : folder) + length <= base->most)
            return put_together(text[0] == '/' ? base->root : base->folder, text, length);
    } else if (length > root && length <= base->most && text[root] == '/' &&
               memcmp(text, PyUnicode_1BYTE_DATA(base->root), (size_t)root) == 0 &&
               is_plain(text + root, length - root)) {
        return put_together(base->root, text + root, length - root);
    }
    return PyObject_CallOneArg(base->join, href);
}

/* The link as it is known by its URL. */
static PyObject *named(PyTypeObject *kind, PyObject *url, PyObject *raw, PyObject *nofollow)
{
    PyObject *link = kind->tp_alloc(kind, 5);
    if (!link)
        return NULL;
    PyTuple_SET_ITEM(link, 0, Py_NewRef(url));
    PyTuple_SET_ITEM(link, 1, Py_NewRef(PyTuple_GET_ITEM(raw, 1)));
    PyTuple_SET_ITEM(link, 2, Py_NewRef(nofollow));
    PyTuple_SET_ITEM(link, 3, Py_NewRef(PyTuple_GET_ITEM(raw, 3)));
    PyTuple_SET_ITEM(link, 4, Py_NewRef(PyTuple_GET_ITEM(raw, 4)));
    return link;
}

static int add_link(PyObject *links, PyTypeObject *kind, PyObject *url, PyObject *raw)
{
    PyObject *nofollow = PyTuple_GET_ITEM(raw, 2), *text = PyTuple_GET_ITEM(raw, 3);
    PyObject *known = PyDict_GetItemWithError(links, url);
    if (!known && PyErr_Occurred())
        return -1;
    if (known) {
        /* One link that may be followed is enough; the first one with words names it. */
        int frees = PyTuple_GET_ITEM(known, 2) == Py_True && nofollow == Py_False;
        int names = PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(known, 3)) == 0 && PyUnicode_GET_LENGTH(text) > 0;
        if (!frees && !names)
            return 0;
        if (PyTuple_GET_ITEM(known, 2) == Py_False)
            nofollow = Py_False;
    }
    PyObject *link = named(kind, url, raw, nofollow);
    int failed = !link || PyDict_SetItem(links, url, link) < 0;
    Py_XDECREF(link);
    return failed ? -1 : 0;
}

static int is_raw(PyObject *raw)
{
    return PyTuple_Check(raw) && PyTuple_GET_SIZE(raw) == 5 && PyUnicode_Check(PyTuple_GET_ITEM(raw, 0)) &&
           PyUnicode_Check(PyTuple_GET_ITEM(raw, 3));
}

PyObject *merge_links(const place *base, PyObject *raws, PyTypeObject *kind)
{
    PyObject *links = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; links && i < PyList_GET_SIZE(raws); i++) {
        PyObject *raw = Py_NewRef(PyList_GET_ITEM(raws, i)); /* held while Python joins */
        if (!is_raw(raw)) {
            PyErr_SetString(PyExc_TypeError, "a link is (href, tag, nofollow, text, context)");
            Py_DECREF(raw);
            Py_CLEAR(links);
            break;
        }
        PyObject *url = url_of(base, PyTuple_GET_ITEM(raw, 0));
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

/* The Python face of reading a page: parses with the GIL released, and keeps one tree's memory for the next page. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "links.h"
#include "merge.h"

enum { LARGEST_KEPT = 1 << 20 }; /* bytes of a page after which the memory goes back */

typedef struct {
    lexbor lxb;
    tags tags;
    PyObject *nothing;
    lxb_document *spare; /* guarded by the GIL */
    int ready;
} module_state;

PyDoc_STRVAR(load_doc, "load(library)\n--\n\n"
"Use the Lexbor in this library, which is loaded already. None, or the name of what it lacks.");

static PyObject *load(PyObject *module, PyObject *library)
{
    module_state *state = PyModule_GetState(module);
    const char *path = PyUnicode_AsUTF8AndSize(library, NULL), *missing;
    if (!path)
        return NULL;
    missing = lexbor_load(&state->lxb, path);
    if (missing)
        return PyUnicode_FromString(missing);
    if (!state->ready && tags_init(&state->lxb, &state->tags) < 0)
        return NULL;
    state->ready = 1;
    Py_RETURN_NONE;
}

static lxb_document *take_document(module_state *state)
{
    lxb_document *document = state->spare;
    state->spare = NULL;
    if (!document && (document = state->lxb.document_create()))
        state->lxb.document_options(document, WITHOUT_EVENTS);
    return document;
}

static void keep_document(module_state *state, lxb_document *document, Py_ssize_t size)
{
    if (state->spare || size > LARGEST_KEPT) {
        state->lxb.document_destroy(document);
        return;
    }
    state->lxb.document_clean(document);
    state->spare = document;
}

PyDoc_STRVAR(elements_doc, "elements(page, wanted, most, words, around, budget)\n--\n\n"
"What leads off a page, UTF-8: a list of (href, tag, nofollow, text, context), and a list of\n"
"(links before it, tag, attributes) of <base>, <link> and <meta>. `wanted` has a bit for each\n"
"of a, area, iframe, frame, base, link, meta.");

static PyObject *elements(PyObject *module, PyObject *args)
{
    module_state *state = PyModule_GetState(module);
    Py_buffer body;
    unsigned status;
    PyObject *result = NULL;
    page p = {.lxb = &state->lxb, .tags = &state->tags, .nothing = state->nothing};
    if (!PyArg_ParseTuple(args, "y*Inppn", &body, &p.wanted, &p.most, &p.words, &p.around, &p.budget))
        return NULL;
    if (!state->ready) {
        PyErr_SetString(PyExc_RuntimeError, "load() comes first");
    } else if (!(p.document = take_document(state))) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        status = state->lxb.document_parse(p.document, body.buf, (size_t)body.len);
        Py_END_ALLOW_THREADS
        p.links = PyList_New(0);
        p.others = PyList_New(0);
        if (status)
            PyErr_Format(PyExc_MemoryError, "Lexbor ended with status %u", status);
        else if (p.links && p.others && read_links(&p) == 0)
            result = PyTuple_Pack(2, p.links, p.others);
        Py_XDECREF(p.links);
        Py_XDECREF(p.others);
        keep_document(state, p.document, body.len);
    }
    PyBuffer_Release(&body);
    return result;
}

PyDoc_STRVAR(merged_doc, "merged(links, kind, root, folder, most, join)\n--\n\n"
"The links with request URLs, one for each URL, as tuples of the type `kind`. `root` and `folder` are of the page's\n"
"base; `join(href)` is asked for the URL of what is not plainly a path.");

static PyObject *merged(PyObject *Py_UNUSED(module), PyObject *args)
{
    place base;
    PyObject *raws, *root, *folder;
    PyTypeObject *kind;
    if (!PyArg_ParseTuple(args, "O!O!UUnO", &PyList_Type, &raws, &PyType_Type, &kind, &root, &folder, &base.most,
                          &base.join))
        return NULL;
    if (!ascii_of(root, &base.root) || !ascii_of(folder, &base.folder) || !PyType_IsSubtype(kind, &PyTuple_Type)) {
        PyErr_SetString(PyExc_ValueError, "a base is ASCII, and a link is a tuple");
        return NULL;
    }
    return merge_links(&base, raws, kind);
}

static PyMethodDef methods[] = {
    {"load", load, METH_O, load_doc},
    {"elements", elements, METH_VARARGS, elements_doc},
    {"merged", merged, METH_VARARGS, merged_doc},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    merge_init();
    state->nothing = PyUnicode_FromString("");
    return state->nothing ? 0 : -1;
}

static void module_free(void *module)
{
    module_state *state = PyModule_GetState(module);
    if (state->spare)
        state->lxb.document_destroy(state->spare);
    for (int i = 0; i < TAGS; i++)
        Py_CLEAR(state->tags.names[i]);
    Py_CLEAR(state->nothing);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_page",
    .m_doc = "The links of a page without a Python object per node.",
    .m_size = sizeof(module_state),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__page(void) { return PyModuleDef_Init(&definition); }

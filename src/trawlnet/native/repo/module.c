/* The Python face of the extraction: releases the GIL, and hands the output over without a copy. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "module.h"

int add_record_counts(PyObject *module); /* module_counts.c */
int add_parts(PyObject *module);         /* module_parts.c */
int add_live(PyObject *module);          /* live/module_live.c */
int add_prove(PyObject *module);         /* module_prove.c */
int add_plc(PyObject *module);           /* plc/module_plc.c */
#ifdef TRAWLNET_ZSTD
int add_block_encoder(PyObject *module); /* pack/module_block.c */
int add_zstd(PyObject *module);          /* pack/module_zstd.c */
#endif

uint64_t index_seed[4]; /* written once, under the GIL, before anything is read */

/* What is kept for reuse: about what the threads of a crawl work on at once, and no more than this of each. */
enum { SPARES = 4, LARGEST_SPARE = 8 << 20 };

typedef struct {
    PyObject *payload_type;
    scratch scratches[SPARES]; /* guarded by the GIL, as are the outputs */
    int scratch_count;
    buffer outputs[SPARES];
    int output_count;
} module_state;

static scratch take_scratch(module_state *state)
{
    return state->scratch_count ? state->scratches[--state->scratch_count] : (scratch){0};
}

static void keep_scratch(module_state *state, scratch *mem)
{
    if (state->scratch_count < SPARES && scratch_size(mem) <= LARGEST_SPARE)
        state->scratches[state->scratch_count++] = *mem;
    else
        scratch_free(mem);
}

static buffer take_output(module_state *state)
{
    return state->output_count ? state->outputs[--state->output_count] : (buffer){0};
}

static void keep_output(module_state *state, buffer *out)
{
    if (state && out->cap && state->output_count < SPARES && out->cap <= LARGEST_SPARE)
        state->outputs[state->output_count++] = (buffer){out->data, 0, out->cap};
    else
        free(out->data);
    *out = (buffer){0};
}

typedef struct {
    PyObject_HEAD
    buffer content;
} Payload;

static int payload_buffer(PyObject *self, Py_buffer *view, int flags)
{
    Payload *p = (Payload *)self;
    static char nothing;
    void *data = p->content.len ? (void *)p->content.data : (void *)&nothing;
    return PyBuffer_FillInfo(view, self, data, (Py_ssize_t)p->content.len, 1, flags);
}

static void payload_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    keep_output(PyType_GetModuleState(type), &((Payload *)self)->content);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot payload_slots[] = {
    {Py_tp_doc, "Bytes that the extraction allocated; read them through memoryview()."},
    {Py_tp_dealloc, payload_free},
    {Py_bf_getbuffer, payload_buffer},
    {0, NULL},
};

static PyType_Spec payload_spec = {
    .name = "trawlnet.native._repo.Payload",
    .basicsize = sizeof(Payload),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = payload_slots,
};

static PyObject *payload_take(const module_state *state, buffer *content)
{
    PyTypeObject *type = (PyTypeObject *)state->payload_type;
    Payload *p = (Payload *)PyType_GenericAlloc(type, 0);
    if (!p)
        return NULL;
    /* Of a large buffer, what it grew beyond its content goes back: Python may hold it for long. */
    if (content->cap > LARGEST_SPARE && content->cap - content->len > content->cap / 4) {
        uint8_t *fitted = realloc(content->data, content->len);
        if (fitted) {
            content->data = fitted;
            content->cap = content->len;
        }
    }
    p->content = *content;
    memset(content, 0, sizeof *content);
    return (PyObject *)p;
}

static PyObject *collections_list(const repo *r)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < r->collection_count; i++) {
        const collection *c = &r->collections[i];
        if (!c->records)
            continue;
        const char *name = (const char *)r->names.data + c->name;
        PyObject *item = Py_BuildValue("(s#Inn)", name, (Py_ssize_t)c->name_len, (unsigned)c->records,
                                       (Py_ssize_t)c->start, (Py_ssize_t)c->end);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    /* Names are unique, so tuples sort by name alone; NSIDs are ASCII, so that is byte order. */
    if (list && PyList_Sort(list) < 0)
        Py_CLEAR(list);
    return list;
}

PyObject *dropped_tuple(const repo *r)
{
    PyObject *counts = PyTuple_New(DROP_COUNT);
    for (int i = 0; counts && i < DROP_COUNT; i++) {
        PyObject *n = PyLong_FromUnsignedLongLong(r->dropped[i]);
        if (!n)
            Py_CLEAR(counts);
        else
            PyTuple_SetItem(counts, i, n);
    }
    return counts;
}

static PyObject *repo_result(const module_state *state, repo *r)
{
    const buffer *sums = &r->sums, *odd = &r->exceptions;
    PyObject *payload = payload_take(state, &r->out);
    PyObject *list = collections_list(r), *dropped = dropped_tuple(r);
    if (!payload || !list || !dropped) {
        Py_XDECREF(payload);
        Py_XDECREF(list);
        Py_XDECREF(dropped);
        return NULL;
    }
    return Py_BuildValue("(is#s#y#y#y#NNNKKy#y#)", REPO_OK, (const char *)r->did, (Py_ssize_t)r->did_len,
                         (const char *)r->rev, (Py_ssize_t)r->rev_len, (const char *)r->root, (Py_ssize_t)DIGEST,
                         (const char *)r->unsigned_commit.data, (Py_ssize_t)r->unsigned_commit.len,
                         (const char *)r->signature, (Py_ssize_t)SIGNATURE, payload, list, dropped,
                         (unsigned long long)r->records, (unsigned long long)r->filtered, (const char *)sums->data,
                         (Py_ssize_t)sums->len, (const char *)odd->data, (Py_ssize_t)odd->len);
}

int read_patterns(PyObject *names, pattern **patterns, size_t *count)
{
    Py_ssize_t n = PyTuple_Size(names);
    *patterns = calloc((size_t)n + 1, sizeof **patterns);
    if (!*patterns) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t len;
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), &len);
        if (!text)
            return 0;
        (*patterns)[i] = (pattern){text, (size_t)len};
    }
    *count = (size_t)n;
    return 1;
}

PyDoc_STRVAR(extract_doc,
"extract(car, verify_hashes, keep_cids, proof, patterns, max_record, max_json, memory_limit)\n--\n\n"
"Returns (0, did, rev, root, unsigned, signature, payload, collections, dropped, records, filtered, sums,\n"
"exceptions),\n"
"or (kind, detail, place) for a repo that must be refused.");

static PyObject *extract(PyObject *module, PyObject *args)
{
    module_state *state = PyModule_GetState(module);
    Py_buffer car;
    PyObject *names, *result = NULL;
    Py_ssize_t max_record, max_json, memory_limit;
    pattern *patterns = NULL;
    repo_options options = {0};
    repo r = {0};

    if (!PyArg_ParseTuple(args, "y*pppO!nnn", &car, &options.verify_hashes, &options.keep_cids, &options.proof,
                          &PyTuple_Type, &names, &max_record, &max_json, &memory_limit))
        return NULL;
    if (max_record < 0 || max_json < 0 || max_json > UINT32_MAX || memory_limit < 0) {
        PyErr_SetString(PyExc_ValueError, "limits must not be negative, and JSON must stay under 4 GiB");
    } else if (read_patterns(names, &patterns, &options.pattern_count)) {
        repo_error error;
        options.patterns = patterns;
        options.max_record = (size_t)max_record;
        options.max_json = (size_t)max_json;
        options.memory_limit = (size_t)memory_limit;
        memcpy(options.seed, index_seed, sizeof options.seed);
        scratch mem = take_scratch(state);
        r.out = take_output(state);
        Py_BEGIN_ALLOW_THREADS
        error = repo_extract(&r, car.buf, (size_t)car.len, &options, &mem);
        Py_END_ALLOW_THREADS
        keep_scratch(state, &mem);
        if (error == REPO_OK)
            result = repo_result(state, &r);
        else if (error == REPO_NO_MEMORY)
            PyErr_NoMemory();
        else
            result = Py_BuildValue("(isn)", (int)error, r.detail, (Py_ssize_t)r.place);
        keep_output(state, &r.out);
        repo_free(&r);
    }
    free(patterns);
    PyBuffer_Release(&car);
    return result;
}

static PyMethodDef methods[] = {
    {"extract", extract, METH_VARARGS, extract_doc},
    {NULL, NULL, 0, NULL},
};

static int seed_from_os(uint64_t seed[4])
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *bytes = os ? PyObject_CallMethod(os, "urandom", "i", 32) : NULL;
    if (bytes)
        memcpy(seed, PyBytes_AsString(bytes), 32);
    Py_XDECREF(os);
    Py_XDECREF(bytes);
    return bytes ? 0 : -1;
}

static int module_exec(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    state->payload_type = PyType_FromModuleAndSpec(module, &payload_spec, NULL);
    if (!state->payload_type || seed_from_os(index_seed) < 0)
        return -1;
    if (add_record_counts(module) < 0 || add_parts(module) < 0 || add_prove(module) < 0 || add_live(module) < 0 ||
        add_plc(module) < 0)
        return -1;
#ifdef TRAWLNET_ZSTD
    if (add_block_encoder(module) < 0 || add_zstd(module) < 0)
        return -1;
#endif
    if (PyModule_AddIntConstant(module, "ERROR_KINDS", REPO_ERROR_COUNT) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "DROP_REASONS", DROP_COUNT) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "SHA256_ACCELERATED", sha256_accelerated() ? Py_True : Py_False);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(((module_state *)PyModule_GetState(module))->payload_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    Py_CLEAR(((module_state *)PyModule_GetState(module))->payload_type);
    return 0;
}

static void module_free(void *module)
{
    module_state *state = PyModule_GetState(module);
    while (state->scratch_count)
        scratch_free(&state->scratches[--state->scratch_count]);
    while (state->output_count)
        free(state->outputs[--state->output_count].data);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_repo",
    .m_doc = "CAR bytes to per-collection JSON without a Python object per record.",
    .m_size = sizeof(module_state),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__repo(void) { return PyModuleDef_Init(&definition); }

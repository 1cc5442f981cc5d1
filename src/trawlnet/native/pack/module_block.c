/* The Python face of packing: an encoder with a zstd context of its own, and the GIL released while it works. */
#include "encoder.h"
#include "frames.h"
#include "proof.h"

#include <stdlib.h>

void keep_small(buffer *b)
{
    if (b->cap > LARGEST_KEPT) {
        free(b->data);
        *b = (buffer){0};
    }
}

void encoder_tidy(BlockEncoder *e)
{
    for (int i = 0; i < PACKED_AT_ONCE; i++)
        keep_small(&e->blocks[i]);
    keep_small(&e->json);
    if (scratch_size(&e->mem) > LARGEST_KEPT) {
        scratch_free(&e->mem);
        e->mem = (scratch){0};
    }
}

static void encoder_free(PyObject *self)
{
    BlockEncoder *e = (BlockEncoder *)self;
    PyTypeObject *type = Py_TYPE(self);
    ZSTD_freeCCtx(e->context);
    for (int i = 0; i < PACKED_AT_ONCE; i++)
        free(e->blocks[i].data);
    free(e->json.data);
    scratch_free(&e->mem);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    int level;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "BlockEncoder() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "i", &level))
        return NULL;
    BlockEncoder *e = (BlockEncoder *)PyType_GenericAlloc(type, 0);
    if (!e)
        return NULL;
    e->context = ZSTD_createCCtx();
    if (!e->context) {
        Py_DECREF(e);
        return PyErr_NoMemory();
    }
    if (ZSTD_isError(ZSTD_CCtx_setParameter(e->context, ZSTD_c_compressionLevel, level))) {
        Py_DECREF(e);
        return PyErr_Format(PyExc_ValueError, "zstd has no level %d", level);
    }
    return (PyObject *)e;
}

static int text_of(PyObject *string, text *into)
{
    Py_ssize_t len;
    const char *at = PyUnicode_AsUTF8AndSize(string, &len);
    *into = (text){(const uint8_t *)at, at ? (size_t)len : 0};
    return at != NULL;
}

/* Collections as C sees them; their buffers are held until they are released. */
typedef struct {
    run *runs;
    Py_buffer *views;
    Py_ssize_t count;
} held_runs;

static void release(held_runs *held)
{
    while (held->count)
        PyBuffer_Release(&held->views[--held->count]);
    free(held->runs);
    free(held->views);
}

/* `items` is a tuple of (name, records, data), and stays as it is: the GIL is held. */
static int hold(PyObject *items, held_runs *held)
{
    Py_ssize_t count = PyTuple_Size(items);
    *held = (held_runs){calloc((size_t)count + 1, sizeof(run)), calloc((size_t)count + 1, sizeof(Py_buffer)), 0};
    if (!held->runs || !held->views) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        if (!PyTuple_Check(item) || PyTuple_Size(item) != 3) {
            PyErr_SetString(PyExc_TypeError, "a collection is (name, records, data)");
            return 0;
        }
        unsigned long records = PyLong_AsUnsignedLong(PyTuple_GetItem(item, 1));
        if (PyErr_Occurred())
            return 0;
        if (records > UINT32_MAX) {
            PyErr_Format(PyExc_ValueError, "%lu records, the format counts to %lu", records, (unsigned long)UINT32_MAX);
            return 0;
        }
        run *r = &held->runs[i];
        Py_buffer *view = &held->views[i];
        if (!text_of(PyTuple_GetItem(item, 0), &r->name) ||
            PyObject_GetBuffer(PyTuple_GetItem(item, 2), view, PyBUF_SIMPLE) < 0)
            return 0;
        held->count++;
        r->records = (uint32_t)records;
        r->data = (text){view->buf, (size_t)view->len};
    }
    return 1;
}

static PyObject *finished(BlockEncoder *e, block_error error)
{
    switch (error) {
    case BLOCK_OK:
        return PyBytes_FromStringAndSize((const char *)e->blocks[0].data, (Py_ssize_t)e->blocks[0].len);
    case BLOCK_LONG_TEXT:
        PyErr_SetString(PyExc_ValueError, "a text of more than 65535 bytes or a DID of more than 4095, which is as far as the format counts");
        return NULL;
    case BLOCK_MANY_RUNS:
        PyErr_SetString(PyExc_ValueError, "more than 65535 collections, which is as far as the format counts");
        return NULL;
    case BLOCK_TOO_LARGE:
        PyErr_SetString(PyExc_ValueError, "a block of 4 GiB or more, where the format does not count to");
        return NULL;
    case BLOCK_NOT_COMPRESSED:
        PyErr_SetString(PyExc_ValueError, "zstd does not compress a collection");
        return NULL;
    default:
        return PyErr_NoMemory();
    }
}

static PyObject *encoded(BlockEncoder *e, const block_content *content)
{
    block_error error;
    e->busy = 1;
    e->blocks[0].len = 0;
    Py_BEGIN_ALLOW_THREADS
    error = block_encode(&e->blocks[0], content, e->context);
    Py_END_ALLOW_THREADS
    PyObject *result = finished(e, error);
    encoder_tidy(e);
    e->busy = 0;
    return result;
}

PyDoc_STRVAR(encode_doc,
"encode(did, pds, rev, crawled_at_us, collections, proof=None)\n--\n\n"
"The archive block of a repository whose collections come by name, each as (name, records, data); of version 2 with\n"
"(key, signature, sums, exceptions).");

typedef struct {
    Py_buffer views[4];
    int count;
    block_proof proof;
} held_proof;

static void release_proof(held_proof *held)
{
    while (held->count)
        PyBuffer_Release(&held->views[--held->count]);
}

/* `item` is None or (key, signature, sums, exceptions). */
static int hold_proof(PyObject *item, held_proof *held)
{
    held->count = 0;
    if (item == Py_None)
        return 1;
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 4) {
        PyErr_SetString(PyExc_TypeError, "a proof is (key, signature, sums, exceptions)");
        return 0;
    }
    for (; held->count < 4; held->count++)
        if (PyObject_GetBuffer(PyTuple_GetItem(item, held->count), &held->views[held->count], PyBUF_SIMPLE) < 0)
            return 0;
    const Py_buffer *v = held->views;
    if ((v[0].len && v[0].len != KEY_BYTES) || v[1].len != SIGNATURE || v[2].len % SUMS_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a proof whose key, signature or sums are of another size");
        return 0;
    }
    held->proof = (block_proof){{v[0].buf, (size_t)v[0].len}, v[1].buf, {v[2].buf, (size_t)v[2].len},
                                {v[3].buf, (size_t)v[3].len}};
    return 1;
}

static PyObject *encoder_encode(PyObject *self, PyObject *args)
{
    BlockEncoder *e = (BlockEncoder *)self;
    PyObject *did, *pds, *rev, *collections, *parts = Py_None, *result = NULL;
    long long crawled_at_us;
    block_content content;
    held_runs held = {0};
    held_proof proof;
    if (!PyArg_ParseTuple(args, "UUULO|O", &did, &pds, &rev, &crawled_at_us, &collections, &parts))
        return NULL;
    if (e->busy) {
        PyErr_SetString(PyExc_ValueError, "another thread is using this encoder");
        return NULL;
    }
    PyObject *items = PySequence_Tuple(collections);
    if (!items)
        return NULL;
    if (hold_proof(parts, &proof) && hold(items, &held) && text_of(did, &content.did) && text_of(pds, &content.pds) && text_of(rev, &content.rev)) {
        content.crawled_at_us = crawled_at_us;
        content.runs = held.runs;
        content.run_count = (size_t)held.count;
        content.proof = proof.count ? &proof.proof : NULL;
        result = encoded(e, &content);
    }
    release(&held);
    release_proof(&proof);
    Py_DECREF(items);
    return result;
}

static PyMethodDef encoder_methods[] = {
    {"encode", encoder_encode, METH_VARARGS, encode_doc},
    {"pack", encoder_pack, METH_VARARGS, encoder_pack_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot encoder_slots[] = {
    {Py_tp_doc, "Makes archive blocks with one level of zstd; for one thread at a time."},
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, encoder_free},
    {Py_tp_methods, encoder_methods},
    {0, NULL},
};

static PyType_Spec encoder_spec = {
    .name = "trawlnet.native._repo.BlockEncoder",
    .basicsize = sizeof(BlockEncoder),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = encoder_slots,
};

int add_block_encoder(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&encoder_spec);
    int failed = !type || PyModule_AddObjectRef(module, "BlockEncoder", type) < 0 ||
                 PyModule_AddIntConstant(module, "PACKED_AT_ONCE", PACKED_AT_ONCE) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

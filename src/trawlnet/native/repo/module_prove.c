/* The Python face of proving: the GIL is released, and no object is made of any record. */
#include "module.h"

#include <stdlib.h>

#include "json_cbor.h"
#include "prove.h"

typedef struct {
    proven_run *runs;
    Py_buffer *views; /* two for each: name and entries */
    Py_ssize_t count; /* of views */
} held_runs;

static void release(held_runs *held)
{
    while (held->count)
        PyBuffer_Release(&held->views[--held->count]);
    free(held->runs);
    free(held->views);
}

/* `items` is a tuple of (name, records, entries), the name as bytes. */
static int hold(PyObject *items, held_runs *held)
{
    Py_ssize_t count = PyTuple_Size(items);
    *held = (held_runs){calloc((size_t)count + 1, sizeof(proven_run)), calloc(2 * (size_t)count + 1, sizeof(Py_buffer)), 0};
    if (!held->runs || !held->views) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_buffer *name = &held->views[2 * i], *entries = name + 1;
        unsigned long long records;
        PyObject *item = PyTuple_GetItem(items, i);
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a collection is (name, records, entries)");
            return 0;
        }
        if (!PyArg_ParseTuple(item, "y*Ky*", name, &records, entries))
            return 0;
        held->count += 2;
        held->runs[i] = (proven_run){{name->buf, (size_t)name->len}, records, {entries->buf, (size_t)entries->len}};
    }
    return 1;
}

static PyObject *bytes_of(const buffer *b)
{
    return PyBytes_FromStringAndSize((const char *)b->data, (Py_ssize_t)b->len);
}

static PyObject *result_of(const proof_result *p)
{
    if (p->no_memory)
        return PyErr_NoMemory();
    if (p->wrong)
        return Py_BuildValue("(sK)", p->wrong, (unsigned long long)p->records);
    PyObject *sums = bytes_of(&p->sums), *digests = bytes_of(&p->digests), *car = bytes_of(&p->car);
    if (!sums || !digests || !car) {
        Py_XDECREF(sums);
        Py_XDECREF(digests);
        Py_XDECREF(car);
        return NULL;
    }
    return Py_BuildValue("(OKy#NNN)", Py_None, (unsigned long long)p->records, (const char *)p->root,
                         (Py_ssize_t)DIGEST, sums, digests, car);
}

PyDoc_STRVAR(prove_doc,
"prove(collections, exceptions, digests, car)\n--\n\n"
"From (name, records, entries) in the order of the tree and the unpacked exceptions to (None, records, root, sums,\n"
"digests, car), the last two empty where they are not asked for; or (what is wrong, with which record).");

static PyObject *py_prove(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *items, *result = NULL;
    Py_buffer exceptions;
    int digests, car;
    held_runs held;
    proof_result p = {0};
    if (!PyArg_ParseTuple(args, "O!y*pp", &PyTuple_Type, &items, &exceptions, &digests, &car))
        return NULL;
    if (hold(items, &held)) {
        text odd = {exceptions.buf, (size_t)exceptions.len};
        Py_BEGIN_ALLOW_THREADS
        prove(&p, held.runs, (size_t)held.count / 2, odd, index_seed, digests, car);
        Py_END_ALLOW_THREADS
        result = result_of(&p);
        proof_result_free(&p);
    }
    release(&held);
    PyBuffer_Release(&exceptions);
    return result;
}

static PyObject *py_record_cbor(PyObject *Py_UNUSED(module), PyObject *json)
{
    Py_buffer view;
    buffer out = {0};
    int no_memory = 0;
    if (PyObject_GetBuffer(json, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const char *wrong = cbor_from_json(view.buf, (size_t)view.len, &out, &no_memory);
    PyBuffer_Release(&view);
    PyObject *result = NULL;
    if (no_memory)
        PyErr_NoMemory();
    else if (wrong)
        PyErr_SetString(PyExc_ValueError, wrong);
    else
        result = bytes_of(&out);
    free(out.data);
    return result;
}

static PyMethodDef methods[] = {
    {"prove", py_prove, METH_VARARGS, prove_doc},
    {"record_cbor", py_record_cbor, METH_O, "record_cbor(json)\n--\n\nThe DAG-CBOR of a record's JSON."},
    {NULL, NULL, 0, NULL},
};

int add_prove(PyObject *module) { return PyModule_AddFunctions(module, methods); }

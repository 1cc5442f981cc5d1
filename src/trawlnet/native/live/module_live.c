/* The Python face of the stream's frames, and of one record as JSON. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "live.h"
#include "module.h"

/* What is kept for reuse, guarded by the GIL: frames are checked by one thread most of the time. */
enum { SPARES = 2, LARGEST_SPARE = 4 << 20 };
static live_memory *spares[SPARES];
static int spare_count;

static live_memory *take_memory(void)
{
    return spare_count ? spares[--spare_count] : calloc(1, sizeof(live_memory));
}

static void keep_memory(live_memory *mem)
{
    if (spare_count < SPARES && live_memory_size(mem) <= LARGEST_SPARE) {
        spares[spare_count++] = mem;
    } else {
        live_memory_free(mem);
        free(mem);
    }
}

static PyObject *text_object(text t)
{
    if (!t.at)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8((const char *)t.at, (Py_ssize_t)t.len, "strict");
}

static PyObject *cid_object(const uint8_t *digest)
{
    char cid[CID_SIZE];
    if (!digest)
        Py_RETURN_NONE;
    memcpy(cid, CID_PREFIX, 4);
    memcpy(cid + 4, digest, DIGEST);
    return PyBytes_FromStringAndSize(cid, CID_SIZE);
}

PyDoc_STRVAR(read_frame_doc,
"read_frame(message)\n--\n\n"
"The number of a refusal; or (seq, did, time, rev, since, payload) of a #commit; or (op, kind, start of the payload).");

static PyObject *py_read_frame(PyObject *Py_UNUSED(module), PyObject *message)
{
    Py_buffer view;
    frame_head found = {0};
    PyObject *result;
    if (PyObject_GetBuffer(message, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *start = view.buf;
    refusal why = frame_read(start, (size_t)view.len, &found);
    size_t payload_len = why ? 0 : (size_t)(start + view.len - found.payload);
    if (!why && found.op == 1 && same_text(found.kind, "#commit")) {
        commit_fields f = {0};
        why = fields_read(found.payload, payload_len, &f);
        result = why ? PyLong_FromLong(why)
                     : Py_BuildValue("(LNNNNy#)", (long long)f.seq, text_object(f.did), text_object(f.time),
                                     text_object(f.rev), text_object(f.since), (const char *)found.payload,
                                     (Py_ssize_t)payload_len);
    } else if (why) {
        result = PyLong_FromLong(why);
    } else {
        result = Py_BuildValue("(Ls#n)", (long long)found.op, found.kind.at ? (const char *)found.kind.at : "",
                               (Py_ssize_t)found.kind.len, (Py_ssize_t)(found.payload - start));
    }
    PyBuffer_Release(&view);
    return result;
}

static PyObject *op_object(const live *l, const op *o)
{
    const char *path = (const char *)o->path.at;
    Py_ssize_t collection = (Py_ssize_t)o->collection_len, len = (Py_ssize_t)o->path.len;
    const char *record = o->record ? (const char *)l->r.car + o->record->start : NULL;
    return Py_BuildValue("(is#s#NNy#)", (int)o->action, path, collection, path + collection + 1, len - collection - 1,
                         cid_object(o->cid), cid_object(o->prev), record, o->record ? (Py_ssize_t)o->record->len : 0);
}

static PyObject *ops_object(const live *l)
{
    PyObject *ops = PyTuple_New((Py_ssize_t)l->op_count);
    for (size_t i = 0; ops && i < l->op_count; i++) {
        PyObject *one = op_object(l, &l->ops[i]);
        if (!one)
            Py_CLEAR(ops);
        else
            PyTuple_SetItem(ops, (Py_ssize_t)i, one);
    }
    return ops;
}

static PyObject *commit_object(const live *l)
{
    const commit_fields *f = &l->fields;
    const repo *r = &l->r;
    PyObject *ops = ops_object(l);
    if (!ops)
        return NULL;
    return Py_BuildValue("(NNNNNNy#y#NN)", text_object(f->did), text_object(f->rev), text_object(f->since),
                         cid_object(f->commit), cid_object(r->data_root), cid_object(f->prev_data),
                         (const char *)r->unsigned_commit.data, (Py_ssize_t)r->unsigned_commit.len,
                         (const char *)r->signature, (Py_ssize_t)SIGNATURE, ops,
                         cid_object(l->is_inverted ? l->before : NULL));
}

PyDoc_STRVAR(check_commit_doc,
"check_commit(payload, now_us)\n--\n\n"
"The number of a refusal; or (did, rev, since, commit, data, prev_data, unsigned, signature, ops, before), where an op\n"
"is (action, collection, rkey, cid, prev, record).");

static PyObject *py_check_commit(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer payload;
    long long now_us;
    PyObject *result = NULL;
    refusal why;
    if (!PyArg_ParseTuple(args, "y*L", &payload, &now_us))
        return NULL;
    live *l = calloc(1, sizeof *l);
    live_memory *mem = l ? take_memory() : NULL;
    if (mem) {
        l->mem = mem;
        Py_BEGIN_ALLOW_THREADS
        why = live_check(l, payload.buf, (size_t)payload.len, now_us, index_seed);
        Py_END_ALLOW_THREADS
        if (!why)
            result = commit_object(l);
        else if (why != LIVE_NO_MEMORY)
            result = PyLong_FromLong(why);
        else
            PyErr_NoMemory();
        keep_memory(mem);
    } else {
        PyErr_NoMemory();
    }
    free(l);
    PyBuffer_Release(&payload);
    return result;
}

PyDoc_STRVAR(record_json_doc,
"record_json(record, keep_cids)\n--\n\n"
"A record's DAG-CBOR as the JSON that archives hold; or the number of the reason why it has none.");

static PyObject *py_record_json(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer record;
    PyObject *result = NULL;
    repo r = {0};
    scratch mem = {0};
    buffer out = {0};
    uint8_t odd;
    if (!PyArg_ParseTuple(args, "y*p", &record, &r.options.keep_cids))
        return NULL;
    r.mem = &mem;
    r.car = record.buf;
    r.car_len = (size_t)record.len;
    memcpy(r.options.seed, index_seed, sizeof r.options.seed);
    drop_reason why = json_from_cbor(&r, record.buf, (size_t)record.len, &out, &odd);
    if (!why)
        result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.len);
    else if (why == DROP_NO_MEMORY)
        PyErr_NoMemory();
    else
        result = PyLong_FromLong(why);
    free(out.data);
    scratch_free(&mem);
    PyBuffer_Release(&record);
    return result;
}

static PyMethodDef methods[] = {
    {"read_frame", py_read_frame, METH_O, read_frame_doc},
    {"check_commit", py_check_commit, METH_VARARGS, check_commit_doc},
    {"record_json", py_record_json, METH_VARARGS, record_json_doc},
    {NULL, NULL, 0, NULL},
};

int add_live(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "REFUSALS", LIVE_REFUSAL_COUNT) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}

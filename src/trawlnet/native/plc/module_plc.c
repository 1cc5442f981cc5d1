/* The Python face of the directory's operations: rows that hold their cells as a column of the tables has them. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "line.h"

/* The fields of a row in the order of its twin in Python; the first ones are texts, and the last of these is bytes. */
enum {
    DID,
    CID,
    OPERATION_TYPE,
    HANDLE,
    PDS,
    PDS_REFUSED,
    SIGNING_KEY,
    PREV,
    OPERATION_JSON,
    TEXTS,
    NULLIFIED = TEXTS,
    SEQ,
    TIME_US,
    FIELDS
};

static const char TYPE_OF_USUAL[] = "plc_operation";
enum { LONGEST_VARINT = 5, NUMBER = 8 };

typedef struct {
    PyObject_VAR_HEAD
    uint64_t seq;
    int64_t time_us;
    uint32_t ends[TEXTS]; /* of the cells */
    uint8_t nullified;
    uint8_t cells[]; /* one behind the other, each a length and a text */
} OperationRow;

static size_t varint_size(size_t number)
{
    size_t size = 1;
    while (number >>= 7)
        size++;
    return size;
}

static uint8_t *put_cell(uint8_t *to, span text)
{
    size_t len = text.len;
    for (; len > 0x7f; len >>= 7)
        *to++ = (uint8_t)(len | 0x80);
    *to++ = (uint8_t)len;
    if (text.len)
        memcpy(to, text.at, text.len);
    return to + text.len;
}

static const uint8_t *cell(const OperationRow *row, int field, size_t *len)
{
    size_t start = field ? row->ends[field - 1] : 0;
    *len = row->ends[field] - start;
    return row->cells + start;
}

static span text_of(const OperationRow *row, int field)
{
    size_t len;
    const uint8_t *at = cell(row, field, &len), *end = at + len;
    while (*at++ & 0x80) {
    }
    return (span){at, (size_t)(end - at)};
}

static OperationRow *make_row(PyTypeObject *type, const span *texts)
{
    size_t size = 0;
    for (int i = 0; i < TEXTS; i++)
        size += varint_size(texts[i].len) + texts[i].len;
    if (size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an operation that is too large for a row");
        return NULL;
    }
    OperationRow *row = (OperationRow *)PyType_GenericAlloc(type, (Py_ssize_t)size);
    uint8_t *to = row ? row->cells : NULL;
    for (int i = 0; row && i < TEXTS; i++) {
        to = put_cell(to, texts[i]);
        row->ends[i] = (uint32_t)(to - row->cells);
    }
    return row;
}

static int utf8_of(PyObject *text, span *found)
{
    Py_ssize_t len;
    found->at = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &len);
    found->len = found->at ? (size_t)len : 0;
    return found->at != NULL;
}

static PyObject *row_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"did",         "cid",  "operation_type", "handle",    "pds", "pds_refused",
                            "signing_key", "prev", "operation_json", "nullified", "seq", "time_us",
                            NULL};
    PyObject *given[OPERATION_JSON];
    span texts[TEXTS];
    const char *json;
    Py_ssize_t json_len;
    int nullified;
    long long seq, time_us;
    if (!PyArg_ParseTupleAndKeywords(args, named, "UUUUUUUUy#pLL", names, &given[DID], &given[CID],
                                     &given[OPERATION_TYPE], &given[HANDLE], &given[PDS], &given[PDS_REFUSED],
                                     &given[SIGNING_KEY], &given[PREV], &json, &json_len, &nullified, &seq, &time_us))
        return NULL;
    if (seq < 0 || time_us < 0) {
        PyErr_SetString(PyExc_ValueError, "a row with a negative number");
        return NULL;
    }
    for (int i = 0; i < OPERATION_JSON; i++)
        if (!utf8_of(given[i], &texts[i]))
            return NULL;
    texts[OPERATION_JSON] = (span){(const uint8_t *)json, (size_t)json_len};
    OperationRow *row = make_row(type, texts);
    if (row) {
        row->nullified = (uint8_t)nullified;
        row->seq = (uint64_t)seq;
        row->time_us = time_us;
    }
    return (PyObject *)row;
}

static void row_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* What Python makes of an endpoint: the origin and why there is none. NULL with an exception. */
static PyObject *ask_origin(PyObject *origin_of, span endpoint, span *url, span *refused)
{
    PyObject *text = PyUnicode_FromStringAndSize((const char *)endpoint.at, (Py_ssize_t)endpoint.len);
    PyObject *both = text ? PyObject_CallFunctionObjArgs(origin_of, text, NULL) : NULL;
    Py_XDECREF(text);
    if (both && (!PyTuple_Check(both) || PyTuple_Size(both) != 2)) {
        PyErr_SetString(PyExc_TypeError, "origin_of() gives a pair");
        Py_CLEAR(both);
    }
    if (both && !(utf8_of(PyTuple_GetItem(both, 0), url) && utf8_of(PyTuple_GetItem(both, 1), refused)))
        Py_CLEAR(both);
    return both;
}

static PyObject *row_of_line(PyTypeObject *type, const plc_line *line, PyObject *origin_of)
{
    OperationRow *row = NULL;
    span texts[TEXTS] = {
        [DID] = line->did,
        [CID] = line->cid,
        [OPERATION_TYPE] = {(const uint8_t *)TYPE_OF_USUAL, sizeof TYPE_OF_USUAL - 1},
        [HANDLE] = line->handle,
        [SIGNING_KEY] = line->signing_key,
        [PREV] = line->prev,
        [OPERATION_JSON] = line->operation,
    };
    PyObject *origin = ask_origin(origin_of, line->endpoint, &texts[PDS], &texts[PDS_REFUSED]);
    if (origin)
        row = make_row(type, texts);
    if (row) {
        row->seq = line->seq;
        row->time_us = line->time_us;
    }
    Py_XDECREF(origin); /* It held the texts. */
    return (PyObject *)row;
}

PyDoc_STRVAR(of_line_doc,
"of_line(line, origin_of)\n--\n\n"
"The row of a usual line; None for any other. `origin_of` gives the\n"
"origin of an endpoint, and why there is none.");

static PyObject *row_of_usual_line(PyObject *type, PyObject *const *args, Py_ssize_t count)
{
    plc_line line;
    Py_buffer view;
    PyObject *row = NULL;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "of_line() takes a line and a callable");
        return NULL;
    }
    if (PyUnicode_Check(args[0])) {
        span text;
        if (!utf8_of(args[0], &text)) { /* a lone surrogate */
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        if (!read_plc_line(&line, text.at, text.len))
            Py_RETURN_NONE;
        return row_of_line((PyTypeObject *)type, &line, args[1]);
    }
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (read_plc_line(&line, view.buf, (size_t)view.len))
        row = row_of_line((PyTypeObject *)type, &line, args[1]);
    else
        row = Py_NewRef(Py_None);
    PyBuffer_Release(&view);
    return row;
}

static size_t cell_size(const OperationRow *row, int field)
{
    size_t len;
    if (field >= TEXTS)
        return field == NULLIFIED ? 1 : NUMBER;
    cell(row, field, &len);
    return len;
}

static uint8_t *put_number(uint8_t *to, uint64_t number)
{
    for (int i = 0; i < NUMBER; i++)
        *to++ = (uint8_t)(number >> 8 * i);
    return to;
}

static uint8_t *put_field(uint8_t *to, const OperationRow *row, int field)
{
    size_t len;
    if (field < TEXTS) {
        const uint8_t *from = cell(row, field, &len);
        memcpy(to, from, len);
        return to + len;
    }
    if (field == NULLIFIED) {
        *to = row->nullified;
        return to + 1;
    }
    return put_number(to, field == SEQ ? row->seq : (uint64_t)row->time_us);
}

static int are_rows(PyTypeObject *type, PyObject *rows)
{
    for (Py_ssize_t i = 0, n = PyList_Size(rows); i < n; i++)
        if (Py_TYPE(PyList_GetItem(rows, i)) != type) {
            PyErr_SetString(PyExc_TypeError, "a row of another kind");
            return 0;
        }
    return 1;
}

/* One bytes object for each column, of the size that its cells take together. */
static PyObject *new_columns(PyObject *rows, const uint8_t *fields, Py_ssize_t count)
{
    PyObject *columns = PyTuple_New(count);
    size_t sizes[FIELDS] = {0};
    for (Py_ssize_t i = 0, n = PyList_Size(rows); i < n; i++) {
        const OperationRow *row = (const OperationRow *)PyList_GetItem(rows, i);
        for (Py_ssize_t f = 0; f < count; f++)
            sizes[f] += cell_size(row, fields[f]);
    }
    for (Py_ssize_t f = 0; columns && f < count; f++) {
        PyObject *column = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizes[f]);
        if (!column)
            Py_CLEAR(columns);
        else
            PyTuple_SetItem(columns, f, column);
    }
    return columns;
}

PyDoc_STRVAR(columns_doc,
"columns(rows, fields)\n--\n\n"
"A list of rows as columns: the cells of each of these fields, by number, one behind the other.");

static PyObject *row_columns(PyObject *type, PyObject *args)
{
    PyObject *rows;
    const char *wanted;
    Py_ssize_t count;
    uint8_t *to[FIELDS];
    if (!PyArg_ParseTuple(args, "O!y#", &PyList_Type, &rows, &wanted, &count))
        return NULL;
    const uint8_t *fields = (const uint8_t *)wanted;
    for (Py_ssize_t f = 0; f < count; f++)
        if (count > FIELDS || fields[f] >= FIELDS) {
            PyErr_SetString(PyExc_ValueError, "a field that rows do not have");
            return NULL;
        }
    PyObject *columns = are_rows((PyTypeObject *)type, rows) ? new_columns(rows, fields, count) : NULL;
    for (Py_ssize_t f = 0; columns && f < count; f++)
        to[f] = (uint8_t *)PyBytes_AsString(PyTuple_GetItem(columns, f));
    for (Py_ssize_t i = 0, n = columns ? PyList_Size(rows) : 0; i < n; i++) {
        const OperationRow *row = (const OperationRow *)PyList_GetItem(rows, i);
        for (Py_ssize_t f = 0; f < count; f++)
            to[f] = put_field(to[f], row, fields[f]);
    }
    return columns;
}

static PyObject *get_text(PyObject *self, void *field)
{
    span text = text_of((OperationRow *)self, (int)(intptr_t)field);
    return PyUnicode_DecodeUTF8((const char *)text.at, (Py_ssize_t)text.len, "strict");
}

static PyObject *get_json(PyObject *self, void *Py_UNUSED(field))
{
    span json = text_of((OperationRow *)self, OPERATION_JSON);
    return PyBytes_FromStringAndSize((const char *)json.at, (Py_ssize_t)json.len);
}

static PyObject *get_nullified(PyObject *self, void *Py_UNUSED(field))
{
    return PyBool_FromLong(((OperationRow *)self)->nullified);
}

static int set_nullified(PyObject *self, PyObject *value, void *Py_UNUSED(field))
{
    int truth = value ? PyObject_IsTrue(value) : -1;
    if (truth < 0) {
        if (!value)
            PyErr_SetString(PyExc_AttributeError, "nullified cannot be deleted");
        return -1;
    }
    ((OperationRow *)self)->nullified = (uint8_t)truth;
    return 0;
}

static PyObject *get_seq(PyObject *self, void *Py_UNUSED(field))
{
    return PyLong_FromUnsignedLongLong(((OperationRow *)self)->seq);
}

static PyObject *get_time_us(PyObject *self, void *Py_UNUSED(field))
{
    return PyLong_FromLongLong(((OperationRow *)self)->time_us);
}

static PyGetSetDef row_members[] = {
    {"did", get_text, NULL, NULL, (void *)DID},
    {"cid", get_text, NULL, NULL, (void *)CID},
    {"operation_type", get_text, NULL, NULL, (void *)OPERATION_TYPE},
    {"handle", get_text, NULL, NULL, (void *)HANDLE},
    {"pds", get_text, NULL, NULL, (void *)PDS},
    {"pds_refused", get_text, NULL, NULL, (void *)PDS_REFUSED},
    {"signing_key", get_text, NULL, NULL, (void *)SIGNING_KEY},
    {"prev", get_text, NULL, NULL, (void *)PREV},
    {"operation_json", get_json, NULL, NULL, NULL},
    {"nullified", get_nullified, set_nullified, NULL, NULL},
    {"seq", get_seq, NULL, NULL, NULL},
    {"time_us", get_time_us, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef row_methods[] = {
    {"of_line", (PyCFunction)(void (*)(void))row_of_usual_line, METH_FASTCALL | METH_CLASS, of_line_doc},
    {"columns", row_columns, METH_VARARGS | METH_CLASS, columns_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot row_slots[] = {
    {Py_tp_doc, "One operation of the PLC directory."},
    {Py_tp_new, row_new},
    {Py_tp_dealloc, row_free},
    {Py_tp_getset, row_members},
    {Py_tp_methods, row_methods},
    {0, NULL},
};

static PyType_Spec row_spec = {
    .name = "trawlnet.native._repo.OperationRow",
    .basicsize = offsetof(OperationRow, cells),
    .itemsize = 1,
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = row_slots,
};

int add_plc(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&row_spec);
    int failed = !type || PyModule_AddObjectRef(module, "OperationRow", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

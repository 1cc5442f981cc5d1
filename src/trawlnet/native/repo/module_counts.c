/* The Python face of counting records: a type that adds up, with the GIL released. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "recordcounts.h"

typedef struct {
    PyObject_HEAD
    int busy; /* guarded by the GIL: the tables are one thread's at a time */
    record_counts counts;
} RecordCounts;

PyDoc_STRVAR(add_doc,
"add(entries, count)\n--\n\n"
"Adds so many records of an unpacked collection. False, with nothing added, when the entries end before.");

static PyObject *counts_add(PyObject *self, PyObject *args)
{
    RecordCounts *c = (RecordCounts *)self;
    Py_buffer entries;
    Py_ssize_t count;
    int whole;
    if (!PyArg_ParseTuple(args, "y*n", &entries, &count))
        return NULL;
    if (c->busy || count < 0) {
        PyErr_SetString(PyExc_ValueError, c->busy ? "another thread is adding to these counts" : "a negative count");
        PyBuffer_Release(&entries);
        return NULL;
    }
    c->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    whole = count_records(&c->counts, entries.buf, (size_t)entries.len, (uint64_t)count);
    Py_END_ALLOW_THREADS
    c->busy = 0;
    PyBuffer_Release(&entries);
    return PyBool_FromLong(whole);
}

/* Takes the key over; whether it went well. */
static int put_count(PyObject *dict, PyObject *key, uint64_t count)
{
    PyObject *number = key ? PyLong_FromUnsignedLongLong(count) : NULL;
    int done = number && PyDict_SetItem(dict, key, number) == 0;
    Py_XDECREF(key);
    Py_XDECREF(number);
    return done;
}

static PyObject *month_name(int month)
{
    return PyUnicode_FromFormat("%04d-%02d", FIRST_YEAR + month / 12, month % 12 + 1);
}

static PyObject *language_name(int language)
{
    int third = language % (LETTERS + 1), both = language / (LETTERS + 1);
    char name[] = {(char)('a' + both / LETTERS), (char)('a' + both % LETTERS), (char)('a' + third - 1)};
    return PyUnicode_FromStringAndSize(name, third ? 3 : 2);
}

static PyObject *named(const uint64_t *counts, int size, PyObject *(*name)(int))
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < size; i++)
        if (counts[i] && !put_count(dict, name(i), counts[i]))
            Py_CLEAR(dict);
    return dict;
}

static PyObject *counts_months(PyObject *self, PyObject *Py_UNUSED(none))
{
    return named(((RecordCounts *)self)->counts.months, MONTHS, month_name);
}

static PyObject *counts_languages(PyObject *self, PyObject *Py_UNUSED(none))
{
    return named(((RecordCounts *)self)->counts.languages, LANGUAGES, language_name);
}

static PyObject *counts_undated(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLongLong(((RecordCounts *)self)->counts.undated);
}

static void counts_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef counts_methods[] = {
    {"add", counts_add, METH_VARARGS, add_doc},
    {"months", counts_months, METH_NOARGS, "Records by the month of their createdAt."},
    {"languages", counts_languages, METH_NOARGS, "Records by the languages of their langs."},
    {"undated", counts_undated, METH_NOARGS, "How many records name no month."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot counts_slots[] = {
    {Py_tp_doc, "What was counted of records so far."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, counts_free},
    {Py_tp_methods, counts_methods},
    {0, NULL},
};

static PyType_Spec counts_spec = {
    .name = "trawlnet.native._repo.RecordCounts",
    .basicsize = sizeof(RecordCounts),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = counts_slots,
};

int add_record_counts(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&counts_spec);
    int failed = !type || PyModule_AddObjectRef(module, "RecordCounts", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

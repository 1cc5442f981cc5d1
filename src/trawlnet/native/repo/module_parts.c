/* The Python face of what extraction and packing are made of, so that each part can be tested on its own. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "crc32.h"
#include "repoblock.h"

static PyObject *digest_with(PyObject *data, void (*digest)(const uint8_t *, size_t, uint8_t *))
{
    Py_buffer view;
    uint8_t out[DIGEST];
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    digest(view.buf, (size_t)view.len, out);
    PyBuffer_Release(&view);
    return PyBytes_FromStringAndSize((const char *)out, DIGEST);
}

static PyObject *py_sha256(PyObject *Py_UNUSED(module), PyObject *data) { return digest_with(data, sha256); }

static PyObject *py_sha256_portable(PyObject *Py_UNUSED(module), PyObject *data)
{
    return digest_with(data, sha256_portable);
}

static void sha256_paired(const uint8_t *data, size_t len, uint8_t *digest)
{
    /* Among messages of other lengths, first on one side and then on the other. */
    hash_job half = {.data = data, .len = len / 2}, whole = {.data = data, .len = len};
    hash_job jobs[] = {half, whole, whole, half, half, whole};
    sha256_all(jobs, 2);
    memcpy(digest, jobs[1].digest, DIGEST);
    sha256_all(jobs, 6);
    for (int i = 1; i < 6; i++)
        if (jobs[i].len == len && memcmp(jobs[i].digest, digest, DIGEST) != 0)
            memset(digest, 0, DIGEST);
}

static void sha256_crowded(const uint8_t *data, size_t len, uint8_t *digest)
{
    /* More than are hashed side by side, of all lengths: each ends while others go on. */
    enum { CROWD = 61 };
    hash_job jobs[CROWD];
    uint8_t alone[DIGEST];
    for (size_t i = 0; i < CROWD; i++)
        jobs[i] = (hash_job){.data = data, .len = i % 3 ? len * i / CROWD : len};
    sha256_all(jobs, CROWD);
    memcpy(digest, jobs[0].digest, DIGEST);
    for (size_t i = 0; i < CROWD; i++) {
        sha256_portable(data, jobs[i].len, alone);
        if (memcmp(jobs[i].digest, alone, DIGEST) != 0)
            memset(digest, 0, DIGEST);
    }
}

static PyObject *py_sha256_crowded(PyObject *Py_UNUSED(module), PyObject *data)
{
    return digest_with(data, sha256_crowded);
}

static PyObject *py_sha256_paired(PyObject *Py_UNUSED(module), PyObject *data)
{
    return digest_with(data, sha256_paired);
}

static PyObject *py_format_double(PyObject *Py_UNUSED(module), PyObject *number)
{
    char text[32];
    double value = PyFloat_AsDouble(number);
    if (PyErr_Occurred())
        return NULL;
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)json_double(value, text));
}

typedef uint32_t crc_fn(uint32_t crc, const uint8_t *data, size_t len);

static PyObject *crc_with(PyObject *args, crc_fn *crc)
{
    Py_buffer view;
    unsigned value = 0;
    if (!PyArg_ParseTuple(args, "y*|I", &view, &value))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    value = crc(value, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(value);
}

static PyObject *py_crc32(PyObject *Py_UNUSED(module), PyObject *args) { return crc_with(args, crc32_ieee); }

static PyObject *py_crc32_portable(PyObject *Py_UNUSED(module), PyObject *args)
{
    return crc_with(args, crc32_portable);
}

static PyMethodDef methods[] = {
    {"sha256", py_sha256, METH_O, "The digest by the fastest code this processor runs."},
    {"sha256_portable", py_sha256_portable, METH_O, "The digest by the portable code."},
    {"sha256_paired", py_sha256_paired, METH_O, "The digest by the code that hashes two messages side by side."},
    {"sha256_crowded", py_sha256_crowded, METH_O, "The digest by the code that hashes as many as it can side by side."},
    {"crc32", py_crc32, METH_VARARGS, "crc32(data, before=0)\n--\n\nAs zlib's, by the fastest code this processor runs."},
    {"crc32_portable", py_crc32_portable, METH_VARARGS, "crc32_portable(data, before=0)\n--\n\nBy the portable code."},
    {"format_double", py_format_double, METH_O, "A finite float as JSON."},
    {NULL, NULL, 0, NULL},
};

int add_parts(PyObject *module) { return PyModule_AddFunctions(module, methods); }

/* The Python face of compressing with zstd: whole frames, or one frame piece by piece. */
#include "frames.h"

#include <stdlib.h>

PyObject *zstd_error;

PyObject *zstd_failed(size_t code)
{
    PyErr_SetString(zstd_error, ZSTD_getErrorName(code));
    return NULL;
}

int claim(int *busy)
{
    if (*busy)
        PyErr_SetString(PyExc_ValueError, "another thread is using this");
    return *busy ? 0 : (*busy = 1);
}

typedef struct {
    PyObject_HEAD
    int busy; /* guarded by the GIL: the context is one thread's at a time */
    ZSTD_CCtx *context;
    buffer out;
} FrameWriter;

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    int level, checksum;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "FrameWriter() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "ip", &level, &checksum))
        return NULL;
    FrameWriter *w = (FrameWriter *)PyType_GenericAlloc(type, 0);
    if (!w)
        return NULL;
    w->context = ZSTD_createCCtx();
    if (!w->context) {
        Py_DECREF(w);
        return PyErr_NoMemory();
    }
    ZSTD_CCtx_setParameter(w->context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(w->context, ZSTD_c_checksumFlag, checksum);
    return (PyObject *)w;
}

static void writer_free(PyObject *self)
{
    FrameWriter *w = (FrameWriter *)self;
    PyTypeObject *type = Py_TYPE(self);
    ZSTD_freeCCtx(w->context);
    free(w->out.data);
    PyObject_Free(self);
    Py_DECREF(type);
}

#define NO_MEMORY (~(size_t)0) /* no code of zstd's */

/* Takes in all of it. */
static size_t write_all(FrameWriter *w, const Py_buffer *data, ZSTD_EndDirective how)
{
    ZSTD_inBuffer from = {data->buf, (size_t)data->len, 0};
    size_t left;
    w->out.len = 0;
    /* With room for all of it, zstd makes a frame in one go. */
    if (how == ZSTD_e_end && !buffer_reserve(&w->out, ZSTD_compressBound(from.size)))
        return NO_MEMORY;
    do {
        if (!buffer_reserve(&w->out, ZSTD_CStreamOutSize()))
            return NO_MEMORY;
        ZSTD_outBuffer to = {w->out.data, w->out.cap, w->out.len};
        left = ZSTD_compressStream2(w->context, &to, &from, how);
        w->out.len = to.pos;
        if (ZSTD_isError(left))
            return left;
    } while (how == ZSTD_e_end ? left : from.pos < from.size);
    return 0;
}

static PyObject *written(FrameWriter *w, PyObject *data, ZSTD_EndDirective how)
{
    PyObject *result = NULL;
    Py_buffer view;
    size_t code;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (claim(&w->busy)) {
        Py_BEGIN_ALLOW_THREADS
        code = write_all(w, &view, how);
        Py_END_ALLOW_THREADS
        if (!code)
            result = PyBytes_FromStringAndSize((const char *)w->out.data, (Py_ssize_t)w->out.len);
        else if (code == NO_MEMORY)
            PyErr_NoMemory();
        else
            zstd_failed(code);
        keep_small(&w->out);
        w->busy = 0;
    }
    PyBuffer_Release(&view);
    return result;
}

static PyObject *writer_frame(PyObject *self, PyObject *data)
{
    return written((FrameWriter *)self, data, ZSTD_e_end);
}

static PyObject *writer_add(PyObject *self, PyObject *data)
{
    return written((FrameWriter *)self, data, ZSTD_e_continue);
}

static PyObject *writer_end(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *nothing = PyBytes_FromStringAndSize("", 0);
    PyObject *result = nothing ? written((FrameWriter *)self, nothing, ZSTD_e_end) : NULL;
    Py_XDECREF(nothing);
    return result;
}

static PyMethodDef writer_methods[] = {
    {"frame", writer_frame, METH_O, "frame(data)\n--\n\nA frame that declares its size."},
    {"add", writer_add, METH_O, "add(data)\n--\n\nWhat comes out when so much more goes into a frame."},
    {"end", writer_end, METH_NOARGS, "end()\n--\n\nThe rest of that frame."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "FrameWriter(level, checksum): for one thread at a time."},
    {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_free},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    .name = "trawlnet.native._repo.FrameWriter",
    .basicsize = sizeof(FrameWriter),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = writer_slots,
};

int add_zstd(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&writer_spec);
    if (!zstd_error)
        zstd_error = PyErr_NewException("trawlnet.native._repo.ZstdError", NULL, NULL);
    int failed = !type || !zstd_error || PyModule_AddObjectRef(module, "FrameWriter", type) < 0 ||
                 PyModule_AddObjectRef(module, "ZstdError", zstd_error) < 0 ||
                 PyModule_AddStringConstant(module, "ZSTD_VERSION", ZSTD_versionString()) < 0;
    Py_XDECREF(type);
    return failed ? -1 : add_frame_reader(module);
}

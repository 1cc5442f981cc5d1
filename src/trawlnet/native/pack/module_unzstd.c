/* The Python face of unpacking zstd: a frame of known size at once, or any frame in pieces of bounded size. */
#include "frames.h"

#include <stdlib.h>

enum { CONTEXTS = 4 }; /* kept for reuse: making one costs more than unpacking a small frame */

static ZSTD_DCtx *contexts[CONTEXTS]; /* guarded by the GIL */
static int context_count;

static ZSTD_DCtx *take_context(void) { return context_count ? contexts[--context_count] : ZSTD_createDCtx(); }

static void keep_context(ZSTD_DCtx *context)
{
    if (context_count < CONTEXTS)
        contexts[context_count++] = context;
    else
        ZSTD_freeDCtx(context);
}

static PyObject *frame_size(PyObject *Py_UNUSED(module), PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    unsigned long long size = ZSTD_getFrameContentSize(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    if (size == ZSTD_CONTENTSIZE_ERROR) {
        PyErr_SetString(zstd_error, "no zstd frame begins there");
        return NULL;
    }
    if (size == ZSTD_CONTENTSIZE_UNKNOWN)
        return Py_NewRef(Py_None);
    return PyLong_FromUnsignedLongLong(size);
}

/* What is wrong, or NULL. The frame has to be all of the data. */
static const char *unpack_into(ZSTD_DCtx *context, char *to, size_t size, const Py_buffer *data)
{
    const size_t whole = ZSTD_findFrameCompressedSize(data->buf, (size_t)data->len);
    if (ZSTD_isError(whole))
        return ZSTD_getErrorName(whole);
    if (whole != (size_t)data->len)
        return "data follow the frame";
    const size_t found = ZSTD_decompressDCtx(context, to, size, data->buf, whole);
    if (ZSTD_isError(found))
        return ZSTD_getErrorName(found);
    return found == size ? NULL : "the frame is shorter than it should be";
}

static PyObject *unpacked(const Py_buffer *data, Py_ssize_t size)
{
    ZSTD_DCtx *context = take_context();
    PyObject *result = context ? PyBytes_FromStringAndSize(NULL, size) : PyErr_NoMemory();
    if (result) {
        char *to = PyBytes_AsString(result);
        const char *wrong;
        Py_BEGIN_ALLOW_THREADS
        wrong = unpack_into(context, to, (size_t)size, data);
        Py_END_ALLOW_THREADS
        if (wrong) {
            PyErr_SetString(zstd_error, wrong);
            Py_CLEAR(result);
        }
    }
    if (context)
        keep_context(context);
    return result;
}

static PyObject *unpack(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y*n", &data, &size))
        return NULL;
    PyObject *result = NULL;
    if (size < 0)
        PyErr_SetString(PyExc_ValueError, "a negative size");
    else
        result = unpacked(&data, size);
    PyBuffer_Release(&data);
    return result;
}

typedef struct {
    PyObject_HEAD
    int busy; /* guarded by the GIL: the stream is one thread's at a time */
    int eof, needs_input;
    ZSTD_DCtx *stream;
    buffer in; /* what was not used up, from `used` on */
    size_t used;
    buffer out;
} FrameReader;

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    int window_log;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "FrameReader() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "i", &window_log))
        return NULL;
    FrameReader *r = (FrameReader *)PyType_GenericAlloc(type, 0);
    if (!r)
        return NULL;
    r->needs_input = 1;
    r->stream = ZSTD_createDCtx();
    if (!r->stream) {
        Py_DECREF(r);
        return PyErr_NoMemory();
    }
    size_t code = ZSTD_DCtx_setParameter(r->stream, ZSTD_d_windowLogMax, window_log);
    if (ZSTD_isError(code)) {
        Py_DECREF(r);
        return zstd_failed(code);
    }
    return (PyObject *)r;
}

static void reader_free(PyObject *self)
{
    FrameReader *r = (FrameReader *)self;
    PyTypeObject *type = Py_TYPE(self);
    ZSTD_freeDCtx(r->stream);
    free(r->in.data);
    free(r->out.data);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int take_in(FrameReader *r, const Py_buffer *data)
{
    if (r->used) {
        memmove(r->in.data, r->in.data + r->used, r->in.len - r->used);
        r->in.len -= r->used;
        r->used = 0;
    }
    if (data->len && !buffer_reserve(&r->in, (size_t)data->len))
        return 0;
    if (data->len)
        memcpy(r->in.data + r->in.len, data->buf, (size_t)data->len);
    r->in.len += (size_t)data->len;
    return 1;
}

/* Until the piece is full, the frame ends or nothing is left to read. */
static size_t read_piece(FrameReader *r, size_t most)
{
    ZSTD_inBuffer from = {r->in.data, r->in.len, r->used};
    ZSTD_outBuffer to = {r->out.data, most, 0};
    size_t code = 1, before;
    do {
        before = from.pos + to.pos;
        code = ZSTD_decompressStream(r->stream, &to, &from);
        if (ZSTD_isError(code))
            return code;
    } while (code && to.pos < most && from.pos + to.pos > before);
    r->used = from.pos;
    r->out.len = to.pos;
    r->eof = code == 0;
    /* A full piece may have more behind it even when all input is used. */
    r->needs_input = !r->eof && to.pos < most;
    return 0;
}

static PyObject *reader_feed(PyObject *self, PyObject *args)
{
    FrameReader *r = (FrameReader *)self;
    PyObject *result = NULL;
    Py_buffer data;
    Py_ssize_t most;
    size_t code;
    if (!PyArg_ParseTuple(args, "y*n", &data, &most))
        return NULL;
    if (most <= 0 || r->eof) {
        PyErr_SetString(PyExc_ValueError, r->eof ? "the frame has ended" : "a piece has at least one byte");
    } else if (claim(&r->busy)) {
        r->out.len = 0;
        if (!take_in(r, &data) || !buffer_reserve(&r->out, (size_t)most)) {
            PyErr_NoMemory();
        } else {
            Py_BEGIN_ALLOW_THREADS
            code = read_piece(r, (size_t)most);
            Py_END_ALLOW_THREADS
            result = code ? zstd_failed(code)
                          : PyBytes_FromStringAndSize((const char *)r->out.data, (Py_ssize_t)r->out.len);
        }
        r->busy = 0;
    }
    PyBuffer_Release(&data);
    return result;
}

static PyObject *reader_eof(PyObject *self, void *Py_UNUSED(nothing))
{
    return PyBool_FromLong(((FrameReader *)self)->eof);
}

static PyObject *reader_needs_input(PyObject *self, void *Py_UNUSED(nothing))
{
    return PyBool_FromLong(((FrameReader *)self)->needs_input);
}

static PyObject *reader_unused(PyObject *self, void *Py_UNUSED(nothing))
{
    const FrameReader *r = (FrameReader *)self;
    if (!r->eof || r->busy)
        return PyBytes_FromStringAndSize("", 0);
    return PyBytes_FromStringAndSize((const char *)r->in.data + r->used, (Py_ssize_t)(r->in.len - r->used));
}

static PyMethodDef reader_methods[] = {
    {"feed", reader_feed, METH_VARARGS, "feed(data, most)\n--\n\nThe next bytes of the frame, `most` at most."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef reader_fields[] = {
    {"eof", reader_eof, NULL, "Whether the frame has ended.", NULL},
    {"needs_input", reader_needs_input, NULL, "Whether feeding nothing would give nothing.", NULL},
    {"unused_data", reader_unused, NULL, "What came after the frame.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "FrameReader(window_log): for one thread at a time."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_free},
    {Py_tp_methods, reader_methods},
    {Py_tp_getset, reader_fields},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "trawlnet.native._repo.FrameReader",
    .basicsize = sizeof(FrameReader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reader_slots,
};

static PyMethodDef methods[] = {
    {"frame_size", frame_size, METH_O, "frame_size(data)\n--\n\nAs the frame declares it, or None."},
    {"unpack", unpack, METH_VARARGS, "unpack(data, size)\n--\n\nWhat is in the one frame, which is of this size."},
    {NULL, NULL, 0, NULL},
};

int add_frame_reader(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&reader_spec);
    int failed = !type || PyModule_AddObjectRef(module, "FrameReader", type) < 0 || PyModule_AddFunctions(module, methods) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

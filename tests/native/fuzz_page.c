/* Fuzz target of the reader of pages; see fuzz_driver.c. Its Python half, page_twin.py, compares the reader with its
 * plain twin. Lexbor and the interpreter come as they are: only our own code is watched. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "fuzz.h"

PyMODINIT_FUNC PyInit__page(void);

/* Bytes that mean something in HTML, in a URL or in UTF-8. */
const uint8_t FUZZ_TELLING[] = {'<', '>', '/', '"', '\'', '=', '&', ';', '#', '?', '!',  '-',  ' ',  '\n', '\t', 'a',
                                'A', ':', '.', '%', 0x00, 0x0c, 0x1c, 0x7f, 0x85, 0xa0, 0xbf, 0xc2, 0xe3, 0xf0, 0xff};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

static PyObject *compare;

static void start(void)
{
    check(PyImport_AppendInittab("_page", PyInit__page) == 0, "the module is known");
    Py_InitializeEx(0);
    PyObject *twin = PyImport_ImportModule("page_twin"); /* PYTHONPATH leads to it */
    compare = twin ? PyObject_GetAttrString(twin, "compare") : NULL;
    if (!compare)
        PyErr_Print();
    check(compare != NULL, "the Python half is there");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!compare)
        start();
    fuzz_now(data, size);
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    PyObject *view = PyMemoryView_FromMemory((char *)copy, (Py_ssize_t)size, PyBUF_READ);
    PyObject *result = view ? PyObject_CallOneArg(compare, view) : NULL;
    if (!result)
        PyErr_Print();
    check(result != NULL, "the reader and its twin agree");
    Py_DECREF(result);
    Py_DECREF(view);
    free(copy);
    return 0;
}

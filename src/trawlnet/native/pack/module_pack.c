/* From CARs to blocks in one call, several repositories in a row: to ask for the GIL twice for each of them costs as
 * much as a small one. */
#include "encoder.h"
#include "proof.h"

#include <stdlib.h>

typedef struct {
    Py_buffer car;
    text pds;
    Py_buffer key; /* that the commit was signed with, as far as we know */
    long long crawled_at_us;
    size_t memory_limit;
    repo r;
    repo_error error;
    block_error refusal; /* of the block, where the repository itself is sound */
} job;

static int by_name(const void *a, const void *b)
{
    const text *one = &((const run *)a)->name, *other = &((const run *)b)->name;
    int order = memcmp(one->at, other->at, one->len < other->len ? one->len : other->len);
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

static block_error pack(BlockEncoder *e, const job *j, buffer *out)
{
    const repo *r = &j->r;
    block_proof proof = {{j->key.buf, (size_t)j->key.len},
                         r->signature,
                         {r->sums.data, r->sums.len},
                         {r->exceptions.data, r->exceptions.len}};
    block_content content = {{r->did, r->did_len}, j->pds, {r->rev, r->rev_len}, j->crawled_at_us, NULL, 0, NULL};
    run *runs = calloc(r->collection_count + 1, sizeof *runs);
    if (!runs)
        return BLOCK_NO_MEMORY;
    for (size_t i = 0; i < r->collection_count; i++) {
        const collection *c = &r->collections[i];
        if (c->records)
            runs[content.run_count++] = (run){{r->names.data + c->name, c->name_len}, c->records,
                                              {r->out.data + c->start, c->end - c->start}};
    }
    qsort(runs, content.run_count, sizeof *runs, by_name);
    content.runs = runs;
    content.proof = r->options.proof ? &proof : NULL;
    block_error error = block_encode(out, &content, e->context);
    free(runs);
    return error;
}

/* Without the GIL. The JSON of one is gone when the next is read. */
static void work(BlockEncoder *e, job *j, const repo_options *common, buffer *out)
{
    repo_options options = *common;
    options.memory_limit = j->memory_limit;
    out->len = 0;
    j->r.out = e->json;
    j->r.out.len = 0;
    j->error = repo_extract(&j->r, j->car.buf, (size_t)j->car.len, &options, &e->mem);
    if (j->error == REPO_OK)
        j->refusal = pack(e, j, out);
    e->json = j->r.out;
    j->r.out = (buffer){0};
}

static PyObject *result_of(const job *j, const buffer *out)
{
    const repo *r = &j->r;
    if (j->error == REPO_NO_MEMORY || (j->error == REPO_OK && j->refusal == BLOCK_NO_MEMORY))
        return PyErr_NoMemory();
    if (j->error != REPO_OK)
        return Py_BuildValue("(isn)", (int)j->error, r->detail, (Py_ssize_t)r->place);
    Py_ssize_t collections = 0;
    for (size_t i = 0; i < r->collection_count; i++)
        collections += r->collections[i].records != 0;
    PyObject *dropped = dropped_tuple(r);
    if (!dropped)
        return NULL;
    /* y# of NULL is None. */
    return Py_BuildValue("(is#s#y#y#KnNy#)", REPO_OK, (const char *)r->did, (Py_ssize_t)r->did_len,
                         (const char *)r->rev, (Py_ssize_t)r->rev_len, (const char *)r->unsigned_commit.data,
                         (Py_ssize_t)r->unsigned_commit.len, (const char *)r->signature, (Py_ssize_t)SIGNATURE,
                         (unsigned long long)r->records, collections, dropped,
                         j->refusal == BLOCK_OK ? (const char *)out->data : NULL, (Py_ssize_t)out->len);
}

/* `item` is (car, memory_limit, pds, crawled_at_us, key); its buffers are held until they are released. */
static int read_job(PyObject *item, job *j)
{
    PyObject *pds;
    Py_ssize_t memory_limit, len;
    *j = (job){0};
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a job is (car, memory_limit, pds, crawled_at_us, key)");
        return 0;
    }
    if (!PyArg_ParseTuple(item, "y*nULy*", &j->car, &memory_limit, &pds, &j->crawled_at_us, &j->key))
        return 0;
    j->pds.at = (const uint8_t *)PyUnicode_AsUTF8AndSize(pds, &len);
    if (!j->pds.at || memory_limit < 0 || (j->key.len && j->key.len != KEY_BYTES)) {
        PyBuffer_Release(&j->car);
        PyBuffer_Release(&j->key);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "limits must not be negative, and keys of 34 bytes");
        return 0;
    }
    j->pds.len = (size_t)len;
    j->memory_limit = (size_t)memory_limit;
    return 1;
}

static PyObject *packed(BlockEncoder *e, const repo_options *common, PyObject *items)
{
    job jobs[PACKED_AT_ONCE];
    Py_ssize_t count = 0, wanted = PyTuple_Size(items);
    PyObject *results = NULL;
    while (count < wanted && read_job(PyTuple_GetItem(items, count), &jobs[count]))
        count++;
    if (count == wanted) {
        e->busy = 1;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < count; i++)
            work(e, &jobs[i], common, &e->blocks[i]);
        Py_END_ALLOW_THREADS
        results = PyList_New(count);
        for (Py_ssize_t i = 0; results && i < count; i++) {
            PyObject *result = result_of(&jobs[i], &e->blocks[i]);
            if (result)
                PyList_SetItem(results, i, result);
            else
                Py_CLEAR(results);
        }
        encoder_tidy(e);
        e->busy = 0;
    }
    while (count) {
        repo_free(&jobs[--count].r);
        PyBuffer_Release(&jobs[count].car);
        PyBuffer_Release(&jobs[count].key);
    }
    return results;
}

const char encoder_pack_doc[] =
"pack(verify_hashes, keep_cids, proof, patterns, max_record, max_json, jobs)\n--\n\n"
"For each (car, memory_limit, pds, crawled_at_us, key) of a tuple, of which there are 16 at most, either\n"
"(0, did, rev, unsigned, signature, records, collections, dropped, block), whose block is None when the format\n"
"cannot hold it, or (kind, detail, place) for a repo that must be refused.";

PyObject *encoder_pack(PyObject *self, PyObject *args)
{
    BlockEncoder *e = (BlockEncoder *)self;
    PyObject *names, *items, *results = NULL;
    Py_ssize_t max_record, max_json;
    pattern *patterns = NULL;
    repo_options options = {0};
    if (!PyArg_ParseTuple(args, "pppO!nnO!", &options.verify_hashes, &options.keep_cids, &options.proof, &PyTuple_Type,
                          &names, &max_record, &max_json, &PyTuple_Type, &items))
        return NULL;
    if (max_record < 0 || max_json < 0 || max_json > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "limits must not be negative, and JSON must stay under 4 GiB");
    } else if (PyTuple_Size(items) > PACKED_AT_ONCE) {
        PyErr_Format(PyExc_ValueError, "more than %d repositories at once", PACKED_AT_ONCE);
    } else if (e->busy) {
        PyErr_SetString(PyExc_ValueError, "another thread is using this encoder");
    } else if (read_patterns(names, &patterns, &options.pattern_count)) {
        options.patterns = patterns;
        options.max_record = (size_t)max_record;
        options.max_json = (size_t)max_json;
        memcpy(options.seed, index_seed, sizeof options.seed);
        results = packed(e, &options, items);
    }
    free(patterns);
    return results;
}

/* Fuzz target of proving; see fuzz_driver.c. An input is read as one record's JSON, as the entries of a collection, and as
 * exceptions to a few records. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "json_cbor.h"
#include "prove.h"

/* Bytes that mean something in JSON, in base32 and base64, as a kind or as a length. */
const uint8_t FUZZ_TELLING[] = {'"', '\\', '{', '}', '[', ']', ':', ',', '0', '1', '9', '-', '.', 'e', 'u', 't', 'f', 'n',
                                '$', 'l', 'b', 'a', '2', '7', '/', '+', ' ', 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
                                0x1f, 0x20, 0x24, 0x7f, 0x80, 0xbf, 0xc2, 0xe3, 0xed, 0xf4, 0xff};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

static const uint64_t SEED[4] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0x2545f4914f6cdd1d};

/* What is taken for a record's JSON must come back from its bytes, letter for letter. */
static void check_json(const uint8_t *json, size_t size)
{
    buffer cbor = {0}, again = {0};
    scratch mem = {0};
    uint8_t odd = 0;
    int no_memory = 0;
    const char *wrong = cbor_from_json(json, size, &cbor, &no_memory);
    check(!no_memory || allocations_left == 0, "memory runs out only when it does");
    if (!wrong && cbor.data[0] >> 5 == 5) {
        allocations_left = 0;
        repo r = {.car = cbor.data, .car_len = cbor.len, .mem = &mem};
        r.options.keep_cids = 1;
        memcpy(r.options.seed, SEED, sizeof SEED);
        check(json_from_cbor(&r, cbor.data, cbor.len, &again, &odd) == DROP_NONE, "what was written can be read");
        check(!odd && again.len == size && memcmp(again.data, json, size) == 0, "the JSON comes back");
    }
    allocations_left = 0;
    free(cbor.data);
    free(again.data);
    scratch_free(&mem);
}

static void check_proof(text entries, uint64_t records, text exceptions, int choice)
{
    proven_run run = {{(const uint8_t *)"a.b.c", 5}, records, entries};
    proof_result p = {0};
    allocations_left = choice >> 2 & 7 ? 0 : 1 + (choice >> 5 & 15);
    prove(&p, &run, 1, exceptions, SEED, choice & 1, choice >> 1 & 1);
    check(!p.no_memory || allocations_left == 0, "memory runs out only when it does");
    allocations_left = 0;
    if (!p.wrong && !p.no_memory) {
        check(p.records == records, "every record is proven");
        check(p.sums.len == (records + GROUP - 1) / GROUP * SUMS_BYTES, "every group has its sums");
        check(!(choice & 1) || p.digests.len == records * DIGEST, "every record has a digest");
    }
    proof_result_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t TWO[] = "\1\0a\2\0\0\0{}\1\0b\7\0\0\0{\"v\":1}";
    uint32_t choice = (uint32_t)size;
    fuzz_now(data, size);
    for (size_t i = 0; i < size; i += 1 + size / 16)
        choice = (choice ^ data[i]) * 0x01000193;
    choice ^= choice >> 15;
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    allocations_left = choice >> 9 & 15 ? 0 : 1;
    check_json(copy, size);
    check_proof((text){copy, size}, size ? copy[size - 1] % 8u : 0, (text){NULL, 0}, (int)(choice >> 1 & 0x7fff));
    check_proof((text){TWO, sizeof TWO - 1}, 2, (text){copy, size}, (int)(choice >> 3 & 0x7fff));
    free(copy);
    return 0;
}

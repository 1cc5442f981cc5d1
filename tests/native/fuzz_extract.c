/* Fuzz target: libFuzzer's entry point, and without libFuzzer a driver that mutates a corpus for a given time.
 *
 * With gcc: see fuzz.sh. With clang the same command, and -fsanitize=fuzzer,address,undefined -DLIBFUZZER.
 * The driver's inputs are a pure function of corpus and seed. One that breaks something is left as finding.car in the
 * current folder; given as the only corpus file, it is run again first thing. */
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "repoblock.h"

/* Linked with --wrap=malloc,--wrap=realloc: the allocation that brings the countdown to zero fails. */
static unsigned allocations_left;

void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return allocations_left && --allocations_left == 0 ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return allocations_left && --allocations_left == 0 ? NULL : __real_realloc(old, size);
}

static const uint8_t *current;
static size_t current_size;

static void save_finding(void)
{
    FILE *f = fopen("finding.car", "wb");
    if (f) {
        fwrite(current, 1, current_size, f);
        fclose(f);
    }
}

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "invariant broken: %s\n", what);
        save_finding();
        abort();
    }
}

/* What must hold of every accepted repo: runs tile the output, and entries tile their run. */
static void check_output(const repo *r)
{
    uint64_t records = 0;
    size_t at = 0;
    for (size_t i = 0; i < r->collection_count; i++) {
        const collection *c = &r->collections[i];
        check(c->start == at, "runs are contiguous");
        for (uint32_t n = 0; n < c->records; n++) {
            check(c->end - at >= 6, "an entry fits its run");
            size_t rkey = r->out.data[at] | (size_t)r->out.data[at + 1] << 8;
            check(rkey >= 1 && rkey <= 512 && c->end - at >= rkey + 6, "a record key fits");
            const uint8_t *p = r->out.data + at + 2 + rkey;
            size_t json = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
            check(json >= 2 && json <= c->end - at - rkey - 6, "the JSON fits");
            check(p[4] == '{' && p[3 + json] == '}', "the JSON is an object");
            at += rkey + 6 + json;
        }
        check(at == c->end, "entries tile their run");
        records += c->records;
    }
    check(at == r->out.len && records == r->records, "runs tile the output");
    check(r->cost <= r->options.memory_limit, "the limit is kept");
}

/* `choice` picks the options, one bit each; most of the time those under which most is read. */
static void run_once(const uint8_t *data, size_t size, unsigned choice)
{
    static const pattern some[] = {{"app.bsky.*", 10}, {"*.odd", 5}};
    repo_options options = {
        .verify_hashes = choice % 16 == 1,
        .keep_cids = choice >> 4 & 1,
        .max_record = choice >> 5 & 3 ? 1 << 20 : 150,
        .max_json = choice >> 7 & 3 ? 2 << 20 : 120,
        .memory_limit = choice >> 9 & 3 ? 64 << 20 : choice >> 11,
        .patterns = some,
        .pattern_count = choice >> 4 & 3 ? 0 : 2,
        .seed = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0x2545f4914f6cdd1d},
    };
    /* An exact copy on the heap, so that reading one byte past it is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    repo r = {0};
    scratch mem = {0};
    check(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    allocations_left = choice >> 17 & 7 ? 0 : 1 + (choice >> 20 & 15);
    repo_error error = repo_extract(&r, copy, size, &options, &mem);
    check(error != REPO_NO_MEMORY || allocations_left == 0, "memory runs out only when it does");
    allocations_left = 0;
    if (error == REPO_OK)
        check_output(&r);
    repo_free(&r);
    scratch_free(&mem);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t choice = (uint32_t)size;
    current = data;
    current_size = size;
    for (size_t i = 0; i < size; i += 1 + size / 16)
        choice = (choice ^ data[i]) * 0x01000193;
    run_once(data, size, choice ^ choice >> 15);
    return 0;
}

#ifndef LIBFUZZER
enum { MAX_SEEDS = 256, MAX_INPUT = 1 << 16 };

typedef struct {
    uint8_t *data;
    size_t len;
} seed_file;

static seed_file seeds[MAX_SEEDS];
static size_t seed_count;

static uint64_t random_state;

static uint64_t next_random(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static size_t below(size_t n) { return n ? (size_t)(next_random() % n) : 0; }

static void load_seed(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(MAX_INPUT);
    check(f && data, "a seed can be read");
    size_t len = fread(data, 1, MAX_INPUT, f);
    fclose(f);
    if (seed_count < MAX_SEEDS)
        seeds[seed_count++] = (seed_file){data, len};
    else
        free(data);
}

/* Bytes that mean something in CBOR, CAR or UTF-8. */
static const uint8_t TELLING[] = {0x00, 0x01, 0x12, 0x20, 0x2a, 0x2f, 0x40, 0x58, 0x5f, 0x60, 0x61, 0x71, 0x7f, 0x80,
                                  0x81, 0x9f, 0xa0, 0xa1, 0xbf, 0xc0, 0xd8, 0xed, 0xf4, 0xf6, 0xf9, 0xfb, 0xfe, 0xff,
                                  0x18, 0x1b, 0x38, 0x3b, 0x78, 0x7b, 0x98, 0x9b, 0xb8, 0xbb, 0x22, 0x5c};

static size_t mutate(uint8_t *data, size_t len)
{
    size_t at = below(len), n = 1 + below(16);
    if (len == 0)
        return 0;
    switch (below(9)) {
    case 0: data[at] ^= (uint8_t)(1u << below(8)); return len;
    case 1: data[at] = (uint8_t)next_random(); return len;
    case 2:
    case 3: data[at] = TELLING[below(sizeof TELLING)]; return len;
    case 4: data[at] = (uint8_t)(data[at] + below(5) - 2); return len;
    case 5: return at ? at : 1;
    case 6: /* take bytes out */
        n = n < len - at ? n : len - at;
        memmove(data + at, data + at + n, len - at - n);
        return len - n;
    case 7: { /* copy bytes over others, lengths stay */
        size_t from = below(len), room = len - (from > at ? from : at);
        memmove(data + at, data + from, n < room ? n : room);
        return len;
    }
    default: { /* splice another seed in */
        const seed_file *other = &seeds[below(seed_count)];
        size_t from = below(other->len), take = other->len - from;
        take = take < MAX_INPUT - at ? take : MAX_INPUT - at;
        memcpy(data + at, other->data + from, take);
        return at + take > len ? at + take : len;
    }
    }
}

static size_t make_input(uint64_t seed, uint64_t iteration, uint8_t *data)
{
    random_state = seed * 0xd1342543de82ef95 + iteration;
    const seed_file *from = &seeds[below(seed_count)];
    size_t len = from->len;
    memcpy(data, from->data, len);
    for (size_t rounds = 1 + below(6); rounds; rounds--)
        len = mutate(data, len);
    return len;
}

int main(int argc, char **argv)
{
    static uint8_t data[MAX_INPUT];
    if (argc < 4) {
        fprintf(stderr, "usage: fuzz_extract SECONDS SEED CORPUS_FILE...\n");
        return 2;
    }
    __sanitizer_set_death_callback(save_finding);
    double seconds = atof(argv[1]);
    uint64_t seed = strtoull(argv[2], NULL, 10), done = 0;
    for (int i = 3; i < argc; i++)
        load_seed(argv[i]);
    for (size_t i = 0; i < seed_count; i++)
        LLVMFuzzerTestOneInput(seeds[i].data, seeds[i].len);
    time_t until = time(NULL) + (time_t)seconds;
    while (time(NULL) < until)
        for (int burst = 0; burst < 1000; burst++) {
            size_t len = make_input(seed, done++, data);
            LLVMFuzzerTestOneInput(data, len);
        }
    printf("%llu executions, seed %llu, %zu seeds, no findings\n", (unsigned long long)done, (unsigned long long)seed,
           seed_count);
    return 0;
}
#endif

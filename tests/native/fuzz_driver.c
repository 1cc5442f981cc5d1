/* Drives a fuzz target: what all of them need, and, where there is no libFuzzer, mutating a corpus for a given time.
 *
 * See fuzz.sh. Without libFuzzer the inputs are a pure function of corpus and seed. One that breaks something is left as
 * fuzz.finding in the current folder (libFuzzer adds its kind and hash to the name); given as the only corpus file, it is
 * run again first thing. */
#include "fuzz.h"

#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Linked with --wrap=malloc,--wrap=realloc. */
unsigned allocations_left;

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

static const uint8_t *current __attribute__((unused));
static size_t current_size __attribute__((unused));

void fuzz_now(const uint8_t *data, size_t size)
{
    current = data;
    current_size = size;
}

#ifndef LIBFUZZER
static void save_finding(void)
{
    FILE *f = fopen("fuzz.finding", "wb");
    if (f) {
        fwrite(current, 1, current_size, f);
        fclose(f);
    }
}
#else
static void save_finding(void) {} /* libFuzzer does */
#endif

void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "invariant broken: %s\n", what);
        save_finding();
        abort();
    }
}

#ifndef LIBFUZZER
enum { MAX_SEEDS = 256, MAX_INPUT = 4 << 20, BURST = 16 };

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
    static uint8_t input[MAX_INPUT];
    FILE *f = fopen(path, "rb");
    check(f != NULL, "a seed can be read");
    size_t len = fread(input, 1, MAX_INPUT, f);
    fclose(f);
    uint8_t *data = malloc(len ? len : 1);
    check(data != NULL, "memory for a seed");
    memcpy(data, input, len);
    if (seed_count < MAX_SEEDS)
        seeds[seed_count++] = (seed_file){data, len};
    else
        free(data);
}

static size_t mutate(uint8_t *data, size_t len)
{
    size_t at = below(len), n = 1 + below(16);
    if (len == 0)
        return 0;
    switch (below(9)) {
    case 0: data[at] ^= (uint8_t)(1u << below(8)); return len;
    case 1: data[at] = (uint8_t)next_random(); return len;
    case 2:
    case 3: data[at] = FUZZ_TELLING[below(FUZZ_TELLING_SIZE)]; return len;
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
        fprintf(stderr, "usage: fuzz SECONDS SEED CORPUS_FILE...\n");
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
        for (int burst = 0; burst < BURST; burst++) {
            size_t len = make_input(seed, done++, data);
            LLVMFuzzerTestOneInput(data, len);
        }
    printf("%llu executions, seed %llu, %zu seeds, no findings\n", (unsigned long long)done, (unsigned long long)seed,
           seed_count);
    return 0;
}
#endif

/* Reads repositories whose last byte is the last that may be read: behind it lies a page that nobody may touch.
 *
 *     at_the_edge FILE...
 *
 * says for each what the extraction made of it. Whoever reads one byte further is killed by the kernel. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "repoblock.h"

static void extract(const uint8_t *car, size_t len, int verify)
{
    repo_options options = {
        .verify_hashes = verify, .max_record = 1 << 20, .max_json = 2 << 20, .memory_limit = 64 << 20, .seed = {1, 2, 3, 4}};
    repo r = {0};
    scratch mem = {0};
    repo_error error = repo_extract(&r, car, len, &options, &mem);
    printf("%d %llu\n", (int)error, (unsigned long long)r.records);
    repo_free(&r);
    scratch_free(&mem);
}

int main(int count, char **names)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 16 * page;
    uint8_t *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + room, page, PROT_NONE) != 0)
        return 2;
    for (int i = 1; i < count; i++) {
        FILE *f = fopen(names[i], "rb");
        size_t len = f ? fread(memory, 1, room, f) : 0;
        if (!f || !len || len == room)
            return 2;
        fclose(f);
        memmove(memory + room - len, memory, len);
        extract(memory + room - len, len, 0);
        extract(memory + room - len, len, 1);
    }
    return 0;
}

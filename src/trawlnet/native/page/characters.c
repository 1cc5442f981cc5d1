/* From UTF-8 to characters. */
#include "characters.h"

#include <string.h>

static int is_ascii(const unsigned char *bytes, size_t size)
{
    uint64_t all = 0, eight;
    size_t i = 0;
    for (; i + sizeof eight <= size; i += sizeof eight) {
        memcpy(&eight, bytes + i, sizeof eight);
        all |= eight;
    }
    for (; i < size; i++)
        all |= bytes[i];
    return !(all & 0x8080808080808080);
}

/* The character at `at`, which moves on; 0x110000 for what is no UTF-8. */
static inline Py_UCS4 next_character(const unsigned char **at, const unsigned char *end)
{
    enum { NONE = 0x110000 };
    const unsigned char *p = *at;
    const int more = *p < 0x80 ? 0 : *p < 0xc2 ? -1 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : *p < 0xf5 ? 3 : -1;
    if (more < 0 || end - p <= more)
        return NONE;
    Py_UCS4 c = more ? *p & (0x3f >> more) : *p;
    for (int i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return NONE;
        c = c << 6 | (p[i] & 0x3f);
    }
    /* Longer than it need be, half of a pair, or beyond the last. */
    if ((more == 2 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) || (more == 3 && (c < 0x10000 || c >= NONE)))
        return NONE;
    *at = p + more + 1;
    return c;
}

int characters_of(const unsigned char *bytes, size_t size, characters *into)
{
    *into = (characters){.ascii = bytes, .length = (Py_ssize_t)size};
    if (is_ascii(bytes, size))
        return 0;
    const unsigned char *at = bytes, *end = bytes + size;
    Py_UCS4 *wide = PyMem_Malloc(size * sizeof *wide), c;
    if (!wide) {
        PyErr_NoMemory();
        return -1;
    }
    *into = (characters){.wide = wide, .owned = wide};
    while (at < end && (c = next_character(&at, end)) < 0x110000)
        wide[into->length++] = c;
    if (at == end)
        return 0;
    PyMem_Free(wide);
    PyObject *decoded = PyUnicode_DecodeUTF8((const char *)bytes, (Py_ssize_t)size, "replace");
    *into = (characters){0};
    if (!decoded)
        return -1;
    *into = (characters){.length = PyUnicode_GetLength(decoded), .owned = PyUnicode_AsUCS4Copy(decoded)};
    into->wide = into->owned;
    Py_DECREF(decoded);
    return into->owned ? 0 : -1;
}

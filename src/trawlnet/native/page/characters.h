/* Text by its characters, wherever they are: bytes of ASCII, or decoded. */
#ifndef TRAWLNET_CHARACTERS_H
#define TRAWLNET_CHARACTERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    const unsigned char *ascii; /* or NULL, and then */
    const Py_UCS4 *wide;
    Py_ssize_t length;
    Py_UCS4 *owned; /* NULL, or what is freed at the end */
} characters;

static inline Py_UCS4 character_at(const characters *text, Py_ssize_t i)
{
    return text->ascii ? text->ascii[i] : text->wide[i];
}

/* As str.isspace() has it. */
static inline int is_space(Py_UCS4 c)
{
    const uint64_t spaces = UINT64_C(0x1f0003e00); /* a bit for each of 9 to 13 and 28 to 32 */
    if (c < 0x80)
        return c <= ' ' && spaces >> c & 1;
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Of UTF-8, with what is none of it replaced as Python does; the bytes have to stay. -1 with an exception. */
int characters_of(const unsigned char *bytes, size_t size, characters *into);

static inline void characters_free(characters *text) { PyMem_Free(text->owned); }

#endif

/* Finds functions by name in a shared library that another package has loaded: no copy of it, none of its headers. */
#ifndef TRAWLNET_SYMBOLS_H
#define TRAWLNET_SYMBOLS_H

#include <stddef.h>
#include <string.h>

typedef struct {
    size_t place; /* offset of the pointer in the struct that is filled */
    const char *name;
} symbol;

#ifdef _WIN32

static inline const char *symbols_find(void *into, const char *library, const symbol *wanted, size_t count)
{
    (void)into;
    (void)library;
    (void)wanted;
    (void)count;
    return "dlopen";
}

#else

#include <dlfcn.h>

/* NULL, or the name of what is missing. */
static inline const char *symbols_find(void *into, const char *library, const symbol *wanted, size_t count)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (!handle)
        return library;
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(handle, wanted[i].name);
        if (!found)
            return wanted[i].name;
        memcpy((char *)into + wanted[i].place, &found, sizeof found);
    }
    return NULL; /* The handle stays: the functions are used until the process ends. */
}

#endif
#endif

"""A heap that does not fray: large pieces of memory go back to the system when they are let go."""

from __future__ import annotations

import ctypes

_LARGE = 1 << 20  # Bytes from which on a piece gets pages of its own.
_SPARE = 8 << 20  # Bytes that the heap may keep at its end, for the next ones.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # As glibc numbers them.


def steady_heap() -> bool:
    """For the rest of this process. False where the C library has no such setting.

    Left to itself, glibc takes a large piece that was let go as a sign that such pieces belong on
    the heap. Bodies of all sizes then leave holes there that nothing fits, and a crawl of large
    repositories takes a third more memory.
    """
    try:
        setting = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(setting(_M_MMAP_THRESHOLD, _LARGE)) and bool(setting(_M_TRIM_THRESHOLD, _SPARE))

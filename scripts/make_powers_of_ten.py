"""Writes the powers of ten that doubles are converted with: the C header on standard output.

    .venv/bin/python scripts/make_powers_of_ten.py > src/trawlnet/native/json/powers_of_ten.h

A test compares the file with what this writes.
"""

from __future__ import annotations

import sys

LEAST_Q, MOST_Q = -1074, 971  # Of a double c * 2^q whose c is an integer.
BITS = 128

# Logarithms as fractions with a power of two below: checked for every argument that occurs.
LOG10_OF_2, LOG2_OF_10, LOG10_OF_3_4 = (1_262_611, 22), (1_741_647, 19), -524_031


def floor_log10(numerator: int, denominator: int) -> int:
    """The greatest k with 10^k <= numerator / denominator."""
    k = len(str(numerator)) - len(str(denominator))
    while not power_at_most(k, numerator, denominator):
        k -= 1
    return k


def power_at_most(k: int, numerator: int, denominator: int) -> bool:
    return 10 ** max(0, k) * denominator <= numerator * 10 ** max(0, -k)


def check_logarithms() -> None:
    factor, shift = LOG10_OF_2
    for q in range(LEAST_Q, MOST_Q + 1):
        top, bottom = 2 ** max(0, q), 2 ** max(0, -q)
        assert floor_log10(top, bottom) == q * factor >> shift
        assert floor_log10(3 * top, 4 * bottom) == q * factor + LOG10_OF_3_4 >> shift
    factor, shift = LOG2_OF_10
    for e in exponents():
        floor = (10**e).bit_length() - 1 if e >= 0 else -((10**-e - 1).bit_length())
        assert floor == e * factor >> shift


def exponents() -> range:
    factor, shift = LOG10_OF_2
    greatest = -(LEAST_Q * factor >> shift)
    return range(-(MOST_Q * factor >> shift), greatest + 1)


def mantissa(e: int) -> int:
    """10^e times the power of two that gives it 128 bits, rounded up."""
    if e >= 0:
        shift = BITS - (10**e).bit_length()
        return 10**e << shift if shift >= 0 else -(-(10**e) >> -shift)
    denominator = 10**-e
    shift = BITS + (denominator - 1).bit_length() - 1
    return -(-(1 << shift) // denominator)


HEADER = f"""\
/* Written by scripts/make_powers_of_ten.py. 10^e as 128 bits, rounded up; see float.c. */
#ifndef TRAWLNET_POWERS_OF_TEN_H
#define TRAWLNET_POWERS_OF_TEN_H

#include <stdint.h>

/* These floors hold for every q and e of a double. */
static inline int floor_log10_pow2(int q)
{{
    return (q * {LOG10_OF_2[0]}) >> {LOG10_OF_2[1]};
}}

static inline int floor_log10_three_quarters_of_pow2(int q)
{{
    return (q * {LOG10_OF_2[0]} - {-LOG10_OF_3_4}) >> {LOG10_OF_2[1]};
}}

static inline int floor_log2_pow10(int e)
{{
    return (e * {LOG2_OF_10[0]}) >> {LOG2_OF_10[1]};
}}

typedef struct {{
    uint64_t high, low;
}} power_of_ten;

enum {{ LEAST_POWER_OF_TEN = {exponents()[0]} }};

static const power_of_ten POWERS_OF_TEN[] = {{
"""


def main() -> None:
    check_logarithms()
    sys.stdout.write(HEADER)
    for e in exponents():
        value = mantissa(e)
        assert value.bit_length() == BITS
        high, low = divmod(value, 1 << 64)
        sys.stdout.write(f"    {{0x{high:016x}, 0x{low:016x}}}, /* {e} */\n")
    sys.stdout.write("};\n\n#endif\n")


if __name__ == "__main__":
    main()

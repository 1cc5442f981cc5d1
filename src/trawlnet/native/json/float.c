/* The shortest decimal that reads back as the same double, in the form of Python's repr.
 *
 * Every double takes about the same few dozen instructions: no loop runs longer for one value than for another but
 * those over its digits. The method is Schubfach (R. Giulietti, 2020). */
#include "repoblock.h"

#include <stdlib.h>

#include "powers_of_ten.h"

enum { MAX_DIGITS = 17, MANTISSA_BITS = 52, LEAST_EXPONENT = -1074 };

typedef struct {
    char digits[MAX_DIGITS + 1];
    int count;
    int exponent; /* of the first digit: value = d.ddd * 10^exponent */
} decimal;

/* An integer times a power of ten. */
typedef struct {
    uint64_t digits;
    int exponent;
} scaled;

/* c * 10^e, shifted as the table's entry is, without its fraction; a fraction makes the result odd, so that it still
 * compares rightly with whole even numbers. The entry is rounded up, by which the product exceeds the true one by less
 * than one in its middle word: a one there is no fraction. */
static uint64_t times_power(const power_of_ten *power, uint64_t c)
{
    unsigned __int128 low = (unsigned __int128)power->low * c;
    unsigned __int128 product = (unsigned __int128)power->high * c + (low >> 64);
    return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}

/* Of the numbers that read back as c * 2^q the one with the fewest digits, and of those the one nearest to it.
 *
 * The doubles on both sides are at least 10^k apart and less than 10^(k+1), so between the midpoints to them lie one
 * multiple of 10^(k+1) at most, and one of 10^k at least. Everything is counted in quarters of 10^k: the midpoints are
 * two quarters of 2^q away, or one below a power of two, where doubles lie closer. */
static scaled shortest(uint64_t c, int q, int is_closer_below)
{
    int k = is_closer_below ? floor_log10_three_quarters_of_pow2(q) : floor_log10_pow2(q);
    const power_of_ten *power = &POWERS_OF_TEN[-k - LEAST_POWER_OF_TEN];
    int shift = q + floor_log2_pow10(-k) + 1;
    uint64_t value = times_power(power, 4 * c << shift);
    uint64_t least = times_power(power, (4 * c - (is_closer_below ? 1 : 2)) << shift);
    uint64_t most = times_power(power, (4 * c + 2) << shift);
    /* A midpoint itself is read as the even one of its neighbours. */
    least += c & 1;
    most -= c & 1;

    uint64_t below = value / 4, tens = below / 10;
    if (tens) {
        int lower = least <= 40 * tens, upper = 40 * tens + 40 <= most;
        if (lower || upper)
            return (scaled){tens + (uint64_t)!lower, k + 1};
    }
    int lower = least <= 4 * below, upper = 4 * below + 4 <= most;
    if (lower != upper)
        return (scaled){below + (uint64_t)upper, k};
    uint64_t middle = 4 * below + 2;
    return (scaled){below + (uint64_t)(value > middle || (value == middle && (below & 1))), k};
}

static decimal spelt(scaled s)
{
    decimal d = {.count = 0};
    char reversed[MAX_DIGITS + 3];
    int count = 0;
    while (s.digits % 10 == 0) {
        s.digits /= 10;
        s.exponent++;
    }
    for (; s.digits; s.digits /= 10)
        reversed[count++] = (char)('0' + s.digits % 10);
    d.exponent = s.exponent + count - 1;
    while (count)
        d.digits[d.count++] = reversed[--count];
    return d;
}

static size_t put_digits(char *to, const char *digits, int count)
{
    memcpy(to, digits, (size_t)count);
    return (size_t)count;
}

static size_t put_zeros(char *to, int count)
{
    memset(to, '0', (size_t)count);
    return (size_t)count;
}

/* At least two digits, as repr has it. */
static size_t put_exponent(char *to, int exponent)
{
    size_t n = 0;
    int left = abs(exponent);
    to[n++] = 'e';
    to[n++] = exponent < 0 ? '-' : '+';
    if (left >= 100)
        to[n++] = (char)('0' + left / 100);
    to[n++] = (char)('0' + left / 10 % 10);
    to[n++] = (char)('0' + left % 10);
    return n;
}

/* Plain notation from 1e-4 up to but not including 1e16, as repr has it. */
static size_t layout(const decimal *d, char *to)
{
    size_t n = 0;
    int e = d->exponent;
    if (e < -4 || e >= 16) {
        n += put_digits(to, d->digits, 1);
        if (d->count > 1) {
            to[n++] = '.';
            n += put_digits(to + n, d->digits + 1, d->count - 1);
        }
        return n + put_exponent(to + n, e);
    }
    if (e < 0) {
        n += put_digits(to, "0.", 2);
        n += put_zeros(to + n, -e - 1);
        return n + put_digits(to + n, d->digits, d->count);
    }
    int whole = e + 1 < d->count ? e + 1 : d->count;
    n += put_digits(to, d->digits, whole);
    n += put_zeros(to + n, e + 1 - whole);
    to[n++] = '.';
    if (whole == d->count)
        return n + put_zeros(to + n, 1);
    return n + put_digits(to + n, d->digits + whole, d->count - whole);
}

size_t json_double(double value, char text[32])
{
    uint64_t bits;
    size_t n = 0;
    memcpy(&bits, &value, 8);
    if (bits >> 63)
        text[n++] = '-';
    if (value == 0)
        return n + put_digits(text + n, "0.0", 3);
    uint64_t mantissa = bits & ((1ULL << MANTISSA_BITS) - 1);
    int exponent = (int)(bits >> MANTISSA_BITS & 0x7ff);
    /* The lowest power of two has neighbours at the same distance on both sides: those below are subnormal. */
    int is_closer_below = mantissa == 0 && exponent > 1;
    if (exponent)
        mantissa |= 1ULL << MANTISSA_BITS;
    decimal d = spelt(shortest(mantissa, LEAST_EXPONENT + (exponent ? exponent - 1 : 0), is_closer_below));
    return n + layout(&d, text + n);
}

/* The shortest decimal that reads back as the same double, in the form of Python's repr. */
#include "repoblock.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DIGITS = 17 };

typedef struct {
    char digits[MAX_DIGITS + 1];
    int count;
    int exponent; /* of the first digit: value = d.ddd * 10^exponent */
} decimal;

/* The correctly rounded decimal of `count` digits. */
static decimal round_to(double value, int count)
{
    decimal d = {.count = count};
    char text[40];
    snprintf(text, sizeof text, "%.*e", count - 1, value);
    const char *at = text;
    for (int n = 0; n < count; at++)
        if (*at >= '0' && *at <= '9')
            d.digits[n++] = *at;
    d.exponent = (int)strtol(strchr(at, 'e') + 1, NULL, 10);
    return d;
}

/* Written without a decimal point, so that no locale changes its reading. */
static int reads_back(const decimal *d, double value)
{
    char text[48];
    snprintf(text, sizeof text, "%.*se%d", d->count, d->digits, d->exponent - (d->count - 1));
    return strtod(text, NULL) == value;
}

static void step_up(decimal *d)
{
    int i = d->count - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        d->digits[0] = '1';
        d->exponent++;
    }
}

static decimal shortest(double value, int is_power_of_two, int is_subnormal)
{
    /* Up to 15 digits survive a normal double, so a shorter form shows as trailing zeros. */
    for (int count = is_subnormal ? 1 : 15; count < MAX_DIGITS; count++) {
        decimal d = round_to(value, count);
        if (reads_back(&d, value))
            return d;
        /* Below a power of two doubles lie closer: the next decimal up can fit where the nearest does not. */
        if (is_power_of_two) {
            step_up(&d);
            if (reads_back(&d, value))
                return d;
        }
    }
    return round_to(value, MAX_DIGITS);
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
        return n + (size_t)sprintf(to + n, "e%c%02d", e < 0 ? '-' : '+', abs(e));
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
    if (bits >> 63) {
        text[n++] = '-';
        value = -value;
    }
    if (value == 0)
        return n + put_digits(text + n, "0.0", 3);
    uint64_t mantissa = bits & 0xfffffffffffffULL;
    decimal d = shortest(value, mantissa == 0, (bits >> 52 & 0x7ff) == 0);
    while (d.count > 1 && d.digits[d.count - 1] == '0')
        d.count--;
    return n + layout(&d, text + n);
}

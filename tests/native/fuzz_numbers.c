/* Fuzz target of writing doubles; see fuzz_driver.c. Every eight bytes of an input are one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "repoblock.h"

const uint8_t FUZZ_TELLING[] = {0x00, 0x01, 0x0f, 0x10, 0x3f, 0x40, 0x7f, 0x80, 0xef, 0xf0, 0xfe, 0xff};
const size_t FUZZ_TELLING_SIZE = sizeof FUZZ_TELLING;

/* The digits of a number in any notation, from the first to the last that is not zero; returns how many. */
static int digits_of(const char *text, char digits[32])
{
    int count = 0, zeros = 0;
    for (const char *at = text; *at && *at != 'e'; at++) {
        if (*at < '0' || *at > '9' || (*at == '0' && !count))
            continue;
        digits[count++] = *at;
        zeros = *at == '0' ? zeros + 1 : 0;
    }
    return count - zeros;
}

static void check_number(double value)
{
    char text[33], other[40], digits[32], nearest[32];
    size_t len = json_double(value, text);
    check(len >= 3 && len <= 24, "a number has three to 24 characters");
    text[len] = 0;
    check(strtod(text, NULL) == value && !signbit(strtod(text, NULL)) == !signbit(value), "a number reads back");
    int count = digits_of(text, digits);
    if (count > 1) {
        snprintf(other, sizeof other, "%.*e", count - 2, value);
        check(strtod(other, NULL) != value, "no shorter number reads back");
    }
    if (count) {
        snprintf(other, sizeof other, "%.*e", count - 1, value);
        int same = digits_of(other, nearest) == count && memcmp(digits, nearest, (size_t)count) == 0;
        check(same || strtod(other, NULL) != value, "it is the nearest of its length");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    double value;
    fuzz_now(data, size);
    for (size_t i = 0; i + sizeof value <= size && i < 64 * sizeof value; i += sizeof value) {
        memcpy(&value, data + i, sizeof value);
        if (isfinite(value))
            check_number(value);
    }
    return 0;
}

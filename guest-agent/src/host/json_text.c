#include "host/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 6       /* significant digits */
#define FIXED_MIN 1e-7 /* from here to FIXED_MAX a number is written without an exponent */
#define FIXED_MAX 1e6

/* Writes a number's digits in front of `end`, at least `least` of them. Returns where they begin. */
static char *digits_before(char *end, uint64_t number, int least)
{
    for (; number > 0 || least > 0; least--) {
        *--end = (char)('0' + number % 10);
        number /= 10;
    }
    return end;
}

void json_put_integer(struct json_text *text, int64_t number)
{
    char digits[24], *end = digits + sizeof(digits);
    uint64_t size = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char *begin = digits_before(end, size, 1);
    if (number < 0)
        *--begin = '-';
    json_put(text, begin, (size_t)(end - begin));
}

/* Right for all numbers, but takes five times as long. */
static void put_real_slowly(struct json_text *text, double number)
{
    char digits[32];
    int length = snprintf(digits, sizeof(digits), "%.*g", DIGITS, number);
    json_put(text, digits, (size_t)length);
    if (strpbrk(digits, ".e") == NULL)
        JSON_PUT(text, ".0");
}

void json_put_real(struct json_text *text, double number)
{
    static const uint64_t powers[] = {1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      UINT64_C(10000000000),
                                      UINT64_C(100000000000),
                                      UINT64_C(1000000000000)};
    if (!isfinite(number) || number == 0.0) {
        JSON_PUT(text, "0.0");
        return;
    }
    if (!(number >= FIXED_MIN && number < FIXED_MAX)) {
        put_real_slowly(text, number);
        return;
    }
    int decimals = 0;
    double scaled = number;
    while (scaled < 1e5) /* at most twelve times: FIXED_MIN */
        scaled = number * (double)powers[++decimals];
    uint64_t whole = (uint64_t)(scaled + 0.5), fraction = whole % powers[decimals];
    whole /= powers[decimals];
    if (decimals == 0)
        decimals = 1;
    for (; decimals > 1 && fraction % 10 == 0; decimals--)
        fraction /= 10;
    char digits[40], *end = digits + sizeof(digits), *begin = digits_before(end, fraction, decimals);
    *--begin = '.';
    begin = digits_before(begin, whole, 1);
    json_put(text, begin, (size_t)(end - begin));
}

void json_put_boolean(struct json_text *text, bool value)
{
    if (value)
        JSON_PUT(text, "true");
    else
        JSON_PUT(text, "false");
}

void json_put_string(struct json_text *text, const char *string)
{
    JSON_PUT(text, "\"");
    for (;;) {
        size_t plain = strcspn(string, "\"\\");
        json_put(text, string, plain);
        string += plain;
        if (*string == '\0')
            break;
        JSON_PUT(text, "\\");
        json_put(text, string++, 1);
    }
    JSON_PUT(text, "\"");
}

/* retry_after.c - see retry_after.h. Some providers write fractions of a second, which the standard
 * does not have. */
#include "retry_after.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_AFTER_MAX 86400 /* seconds: what is longer says no more */

static int month_of(const char *name)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const char *at = strlen(name) == 3 ? strstr(names, name) : NULL;
    return at && (at - names) % 3 == 0 ? (int)(at - names) / 3 : -1;
}

/* The three forms that a recipient must take (RFC 9110, 5.6.7). -1: none of them. */
static int64_t date_ms(const char *text)
{
    struct tm t = {.tm_mday = 0};
    char month[4] = "";
    int n = 0;
    if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &t.tm_mday, month,
               &t.tm_year, &t.tm_hour, &t.tm_min, &t.tm_sec, &n) != 6 &&
        sscanf(text, "%*9[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d GMT%n", &t.tm_mday, month,
               &t.tm_year, &t.tm_hour, &t.tm_min, &t.tm_sec, &n) != 6 &&
        sscanf(text, "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d%n", month, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &t.tm_sec, &t.tm_year, &n) != 6) {
        return -1;
    }
    t.tm_mon = month_of(month);
    t.tm_year -= t.tm_year >= 1900 ? 1900 : -100; /* two digits: of this century */
    if (n == 0 || text[n] || t.tm_mon < 0 || t.tm_mday < 1 || t.tm_hour > 23 || t.tm_min > 59 ||
        t.tm_year < 0) {
        return -1;
    }
    return (int64_t)timegm(&t) * 1000;
}

int64_t retry_after_ms(const char *text, int64_t now_ms)
{
    if (!text) {
        return -1;
    }
    size_t digits = strspn(text, "0123456789"), fraction = 0;
    if (digits > 0 && text[digits] == '.') {
        fraction = 1 + strspn(text + digits + 1, "0123456789");
    }
    int64_t ms;
    if (digits > 0 && !text[digits + fraction]) {
        int64_t s = digits > 6 ? RETRY_AFTER_MAX : strtol(text, NULL, 10);
        ms = (s + (fraction > 1)) * 1000; /* rounded up */
    } else if (now_ms < 0 || (ms = date_ms(text)) < 0) {
        return -1;
    } else {
        ms = ms > now_ms ? ms - now_ms : 0;
    }
    return ms > RETRY_AFTER_MAX * 1000 ? RETRY_AFTER_MAX * 1000 : ms;
}

/* constrain_format.c - formats as patterns, written with what regex.h takes.
 *
 * date, time, date-time: RFC 3339, with the days of each month and of leap years, years from 0001
 * as most calendars of programs begin, no leap second; uuid: RFC 9562; email: RFC 5321 without
 * quoted local parts, and domains of two to four labels that together stay under 254 characters;
 * ipv4 and ipv6: RFC 2673 and RFC 4291 without a zone.
 */
#include "constrain_private.h"

#include <string.h>

#define YEAR "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
#define LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define HOUR   "([01][0-9]|2[0-3])"
#define TIME   HOUR ":[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]" HOUR ":[0-5][0-9])"
#define HEX    "[0-9a-fA-F]"
#define LOCAL  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define LABEL  "[A-Za-z0-9]([A-Za-z0-9-]{0,48}[A-Za-z0-9])?"
#define OCTET  "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define GROUP  HEX "{1,4}"
#define GROUPS "(" GROUP ":)"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$"},
    {"email", "^" LOCAL "{1,31}(\\." LOCAL "{1,32})?@" LABEL "(\\." LABEL "){1,3}$"},
    {"ipv4", "^(" OCTET "\\.){3}" OCTET "$"},
    {"ipv6",
     "^(" GROUPS "{7}" GROUP "|" GROUPS "{1,7}:|" GROUPS "{1,6}:" GROUP "|" GROUPS "{1,5}(:" GROUP
     "){1,2}|" GROUPS "{1,4}(:" GROUP "){1,3}|" GROUPS "{1,3}(:" GROUP "){1,4}|" GROUPS
     "{1,2}(:" GROUP "){1,5}|" GROUP ":(:" GROUP "){1,6}|:((:" GROUP "){1,7}|:))$"},
};

const char *constrain_format_pattern(const char *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, format) == 0) {
            return formats[i].pattern;
        }
    }
    return NULL;
}

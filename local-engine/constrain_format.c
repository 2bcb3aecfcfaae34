/* constrain_format.c - formats as patterns, written with what regex.h takes.
 *
 * date, time, date-time: RFC 3339, with the days of each month and of leap years, years from 0001
 * as most calendars of programs begin, no leap second, T and Z as capitals; duration: appendix A of
 * it, numbers of at most nine digits; uuid: RFC 9562; hostname: RFC 1123, at most four labels
 * without two hyphens in a row (of those some are no names: RFC 5891), which stays under 254
 * characters; email: RFC 5321 without quoted local parts, with one dot in them at most, at a
 * hostname; ipv4 and ipv6: RFC 2673 and RFC 4291 without a zone and without a part written as ipv4;
 * uri: RFC 3986, absolute, with a hostname: an URL.
 *
 * The formats that JSON schema defines are honoured or refused. Others (int32, password, binary)
 * are annotations, as it says of names that it does not know.
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
#define LABEL  "[A-Za-z0-9](-?[A-Za-z0-9]){0,24}"
#define HOST   LABEL "(\\." LABEL "){0,3}"
#define OCTET  "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define GROUP  HEX "{1,4}"
#define GROUPS "(" GROUP ":)"
#define CHAR   "([A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX "{2})"
#define N      "[0-9]{1,9}"
#define CLOCK  "T(" N "H(" N "M(" N "S)?)?|" N "M(" N "S)?|" N "S)"
#define DAYS   "(" N "Y(" N "M(" N "D)?)?|" N "M(" N "D)?|" N "D)"

struct format {
    const char *name, *pattern; /* NULL: JSON schema has it, we do not */
};
static const struct format formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(" DAYS "(" CLOCK ")?|" CLOCK "|" N "W)$"},
    {"hostname", "^" HOST "$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]{0,19}://" HOST "(:[0-9]{1,4})?(/" CHAR "*)*(\\?(" CHAR
            "|[/?])*)?(#(" CHAR "|[/?])*)?$"},
    {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$"},
    {"email", "^" LOCAL "{1,31}(\\." LOCAL "{1,32})?@" LABEL "(\\." LABEL "){1,3}$"},
    {"ipv4", "^(" OCTET "\\.){3}" OCTET "$"},
    {"ipv6",
     "^(" GROUPS "{7}" GROUP "|" GROUPS "{1,7}:|" GROUPS "{1,6}:" GROUP "|" GROUPS "{1,5}(:" GROUP
     "){1,2}|" GROUPS "{1,4}(:" GROUP "){1,3}|" GROUPS "{1,3}(:" GROUP "){1,4}|" GROUPS
     "{1,2}(:" GROUP "){1,5}|" GROUP ":(:" GROUP "){1,6}|:((:" GROUP "){1,7}|:))$"},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"json-pointer", NULL},
    {"regex", NULL},
    {"relative-json-pointer", NULL},
    {"uri-reference", NULL},
    {"uri-template", NULL},
};

static const struct format *find(const json_t *name)
{
    for (size_t i = 0; json_is_string(name) && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, json_string_value(name)) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

bool constrain_format_is_known(const json_t *name)
{
    return find(name) != NULL;
}

const char *constrain_format_pattern(const json_t *name)
{
    const struct format *f = find(name);
    return f ? f->pattern : NULL;
}

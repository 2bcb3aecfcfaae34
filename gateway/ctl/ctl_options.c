/* ctl_options.c - see ctl_options.h. */
#include "gateway/ctl/ctl_options.h"

#include "gateway/base/program.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 256 }; /* what getopt_long() returns for the first row: above all letters */

int ctl_options_misused(const struct ctl_verb *v, const char *what)
{
    (void)fprintf(stderr, "isothermctl %s: %s: see isothermctl %s --help\n", v->name, what,
                  v->name);
    return 2;
}

static bool read_number(const char *text, const struct ctl_option *o)
{
    char *end = NULL;
    errno = 0;
    long n = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
    if (!end || *end || errno || n < o->min || n > o->max) {
        return false;
    }
    *o->number = n;
    return true;
}

static bool take_value(const struct ctl_option *o, const char *value)
{
    if (o->flag) {
        *o->flag = true;
        return true;
    }
    if (o->number) {
        return read_number(value, o);
    }
    if (o->sha256) {
        *o->sha256 = value;
        return strlen(value) == 64 && strspn(value, "0123456789abcdefABCDEF") == 64;
    }
    *o->text = value;
    return true;
}

static int bad_value(const struct ctl_verb *v, const struct ctl_option *o)
{
    char what[128];
    if (o->sha256) {
        (void)snprintf(what, sizeof what, "--%s takes 64 hexadecimal digits", o->name);
    } else {
        (void)snprintf(what, sizeof what, "--%s takes a number from %ld to %ld", o->name, o->min,
                       o->max);
    }
    return ctl_options_misused(v, what);
}

/* The row of what getopt_long() returned, NULL: none. */
static const struct ctl_option *find_row(const struct ctl_verb *v, int c)
{
    for (size_t i = 0; i < v->n_options; i++) {
        if (c == FIRST + (int)i || (v->options[i].letter && c == v->options[i].letter)) {
            return &v->options[i];
        }
    }
    return NULL;
}

int ctl_options_parse(const struct ctl_verb *v, int argc, char **argv)
{
    struct option longs[CTL_OPTIONS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
    char letters[2 * CTL_OPTIONS_MAX + 3] = ":h";
    size_t n_letters = 2;
    int c;
    assert(v->n_options <= CTL_OPTIONS_MAX);
    for (size_t i = 0; i < v->n_options; i++) {
        const struct ctl_option *o = &v->options[i];
        longs[i + 1] = (struct option){o->name, o->flag ? no_argument : required_argument, NULL,
                                       FIRST + (int)i};
        if (o->letter) {
            letters[n_letters++] = o->letter;
            letters[n_letters] = o->flag ? '\0' : ':';
            n_letters += !o->flag;
        }
    }
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct ctl_option *o = find_row(v, c);
        if (c == 'h') {
            (void)fputs(v->usage, stdout);
            return 0;
        }
        if (!o) {
            char name[64];
            (void)snprintf(name, sizeof name, "isothermctl %s", v->name);
            return program_bad_option(name, c, argv);
        }
        if (!take_value(o, optarg)) {
            return bad_value(v, o);
        }
    }
    return optind + v->n_arguments == argc ? -1 : ctl_options_misused(v, v->arguments);
}

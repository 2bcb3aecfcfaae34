/* ctl_catalog_read.c - verbs that read the catalog: versions, show, export; and the options of all
 * verbs that do. They open the database without a check of the whole file: what is damaged is found
 * where it is read. */
#include "gateway/ctl/ctl_catalog_read.h"

#include "catalog/claim_json.h"
#include "catalog/evidence.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include "gateway/base/program.h"
#include "gateway/ctl/table.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- options */

static const struct option all_options[] = {
    {"db", required_argument, NULL, 'd'},      {"provider", required_argument, NULL, 'P'},
    {"model", required_argument, NULL, 'm'},   {"param", required_argument, NULL, 'p'},
    {"version", required_argument, NULL, 'v'}, {"as-of", required_argument, NULL, 'a'},
    {"on", required_argument, NULL, 'O'},      {"since", required_argument, NULL, 's'},
    {"output", required_argument, NULL, 'o'},  {"overrides", no_argument, NULL, 'l'},
    {"wide", no_argument, NULL, 'w'},          {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
};
#define N_OPTIONS (sizeof all_options / sizeof all_options[0])

/* The options that a verb takes, as getopt_long() wants them; short are -m and -o. */
static void choose_options(const char *takes, struct option longs[N_OPTIONS + 1], char shorts[16])
{
    size_t n = 0, at = 0;
    shorts[at++] = ':';
    shorts[at++] = 'h';
    for (size_t i = 0; i < N_OPTIONS; i++) {
        int letter = all_options[i].val;
        if (letter != 'h' && !strchr(takes, letter)) {
            continue;
        }
        longs[n++] = all_options[i];
        if (letter == 'm' || letter == 'o') {
            shorts[at++] = (char)letter;
            shorts[at++] = ':';
        }
    }
    longs[n] = (struct option){NULL, 0, NULL, 0};
    shorts[at] = '\0';
}

static void take_text(struct read_options *o, int letter, const char *text)
{
    const struct {
        int letter;
        const char **out;
    } texts[] = {{'d', &o->db},    {'P', &o->provider}, {'m', &o->model}, {'p', &o->param},
                 {'a', &o->as_of}, {'O', &o->on},       {'s', &o->since}, {'o', &o->output}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].letter == letter) {
            *texts[i].out = text;
        }
    }
}

/* 0 done, 1 help was asked for, -1 wrong: said. */
static int parse_options(const struct read_verb *verb, struct read_options *o, int argc,
                         char **argv)
{
    struct option longs[N_OPTIONS + 1];
    char shorts[16], name[64];
    int letter;
    choose_options(verb->takes, longs, shorts);
    (void)snprintf(name, sizeof name, "isothermctl catalog %s", verb->name);
    optind = 1;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        switch (letter) {
        case 'h':
            return 1;
        case 'j':
            o->is_json = true;
            break;
        case 'w':
            o->is_wide = true;
            break;
        case 'l':
            o->overrides_only = true;
            break;
        case 'v':
            if (!ctl_catalog_number(optarg, &o->version)) {
                (void)ctl_catalog_usage(verb->name, "--version takes a number from 1");
                return -1;
            }
            break;
        case '?':
        case ':':
            (void)program_bad_option(name, letter, argv);
            return -1;
        default:
            take_text(o, letter, optarg);
        }
    }
    o->words = argv + optind;
    o->n_words = argc - optind;
    return 0;
}

/* Dates and combinations; 0, or 2: said. */
static int check_options(const struct read_verb *verb, const struct read_options *o)
{
    if (o->n_words > verb->n_words_max) {
        return ctl_catalog_usage(verb->name, "too many words");
    }
    if (o->as_of && !catalog_is_time(o->as_of)) {
        return ctl_catalog_usage(verb->name, "--as-of takes a day of the calendar, 2026-11-30, or "
                                             "that with a time, 2026-11-30T09:30");
    }
    if (o->on && !catalog_is_day(o->on)) {
        return ctl_catalog_usage(verb->name, "--on takes a day of the calendar, 2026-11-30");
    }
    if (o->since && !catalog_is_time(o->since)) {
        return ctl_catalog_usage(verb->name, "--since takes a day of the calendar, 2026-11-30, or "
                                             "that with a time, 2026-11-30T09:30");
    }
    if (o->as_of && o->version) {
        return ctl_catalog_usage(verb->name, "--version and --as-of both choose a version: give "
                                             "one of them");
    }
    return 0;
}

int read_begin(const struct read_verb *verb, struct read_options *o, struct catalog **c, int argc,
               char **argv)
{
    struct catalog_error err = {0};
    char path[CTL_PATH_MAX];
    *o = (struct read_options){0};
    int rc = parse_options(verb, o, argc, argv);
    if (rc > 0) {
        (void)fputs(verb->help, stdout);
        return 0;
    }
    rc = rc < 0 ? 2 : check_options(verb, o);
    if (rc) {
        return rc;
    }
    if (!ctl_catalog_path(o->db, false, path)) {
        return 1;
    }
    return catalog_open_quick(c, path, &err) ? -1 : ctl_catalog_failed(&err);
}

/* ---- output */

int read_no_memory(void)
{
    (void)fprintf(stderr, "isothermctl: out of memory\n");
    return 1;
}

bool read_print_json(const json_t *j)
{
    struct buf b;
    buf_init(&b, LIMIT_ANSWER_BYTES);
    bool ok = jsonio_write(&b, j) && fwrite(b.p, 1, b.len, stdout) == b.len;
    buf_release(&b);
    return ok;
}

int read_print_list(json_t *list)
{
    bool ok = list != NULL;
    size_t n = json_array_size(list);
    (void)fputs(ok ? "[" : "", stdout); /* what fails to be written is told at the program's end */
    for (size_t i = 0; ok && i < n; i++) {
        (void)fputs(i ? ",\n" : "\n", stdout);
        ok = read_print_json(json_array_get(list, i));
    }
    (void)fputs(!ok ? "" : n ? "\n]\n" : "]\n", stdout);
    json_decref(list);
    return ok ? 0 : read_no_memory();
}

/* ---- versions */

static const struct read_verb versions_verb = {
    "versions",
    "usage: isothermctl catalog versions [--db DB] [--json]\n"
    "\n"
    "Every version of the catalog: when it was made, by whom and why. A shipped one holds what "
    "the\n"
    "provider files held; a local one rests on a shipped one and holds what was set on this "
    "machine.\n",
    "djw", 0};

static bool add_version(const struct catalog_version *v, void *ud)
{
    return json_array_append_new(ud, version_json(v)) == 0;
}

static bool version_row(const struct catalog_version *v, void *ud)
{
    struct table *t = ud;
    char number[24], kind[48] = "shipped", claims[24], hash[16], conflicts[24] = "";
    (void)snprintf(number, sizeof number, "%lld", (long long)v->number);
    if (v->kind == VERSION_LOCAL) {
        (void)snprintf(kind, sizeof kind, "local on %lld", (long long)v->base);
    }
    (void)snprintf(claims, sizeof claims, "%lld", (long long)v->n_claims);
    (void)snprintf(hash, sizeof hash, "%.12s", v->hash);
    if (v->n_conflicts) {
        (void)snprintf(conflicts, sizeof conflicts, "%lld", (long long)v->n_conflicts);
    }
    return table_cell(t, number) && table_cell(t, v->created) && table_cell(t, kind) &&
           table_cell(t, claims) && table_cell(t, conflicts) && table_cell(t, hash) &&
           table_cell(t, v->author) && table_cell(t, v->reason);
}

static int print_versions(struct catalog *c)
{
    static const struct table_column columns[] = {
        {"VERSION", true, 0, 0}, {"CREATED", false, 10, 0}, {"KIND", false, 0, 0},
        {"CLAIMS", true, 0, 3},  {"CONFLICTS", true, 0, 2}, {"HASH", false, 0, 1},
        {"AUTHOR", false, 8, 0}, {"REASON", false, 12, 0},
    };
    struct catalog_error err = {0};
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof columns[0]);
    bool ok = catalog_versions(c, version_row, &t, &err);
    bool is_whole = !t.text.is_failed && (!ok || table_print(&t, stdout, table_terminal_width()));
    int rc = !ok ? ctl_catalog_failed(&err) : !is_whole ? read_no_memory() : 0;
    table_release(&t);
    return rc;
}

int ctl_catalog_versions(int argc, char **argv)
{
    struct read_options o;
    struct catalog_error err = {0};
    struct catalog *c;
    int rc = read_begin(&versions_verb, &o, &c, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (!o.is_json) {
        rc = print_versions(c);
    } else {
        json_t *list = json_array();
        if (catalog_versions(c, add_version, list, &err)) {
            rc = read_print_list(list);
        } else {
            json_decref(list);
            rc = ctl_catalog_failed(&err);
        }
    }
    catalog_close(c);
    return rc;
}

/* ---- show */

static const struct read_verb show_verb = {
    "show",
    "usage: isothermctl catalog show [PROVIDER] [--model M] [--param P] [--version N | --as-of "
    "DATE]\n"
    "                                [--on DATE] [--wide] [--json] [--db DB]\n"
    "\n"
    "What providers take, as the newest version has it.\n"
    "  PROVIDER        of this one only; PROVIDER/MODEL is short for it with --model\n"
    "  --model M       of the claims whose pattern takes the model id M\n"
    "  --param P       about this parameter\n"
    "  --version N     as that version has it\n"
    "  --as-of DATE    what was believed: as the version that was the newest on that day has it\n"
    "  --on DATE       what held at the provider: claims that were valid on that day, those that "
    "have\n"
    "                  ended since included\n"
    "  --wide          also endpoint, validity, source and note; nothing is cut to the terminal\n"
    "  --json          a list of claims with all their fields\n"
    "A verdict is what probes and traffic have said. Exit status 1: no claim matches.\n",
    "dmpvaOwj", 1};

static const struct table_column show_columns[] = {
    {"CLAIM", true, 0, 3},
    {"PROVIDER", false, 8, 0},
    {"MODELS", false, 8, 0},
    {"PARAMETER", false, 12, 0},
    {"SUPPORT", false, 0, 0},
    {"RANGE", false, 6, 0},
    {"WIRE", false, 12, 1},
    {"AS OF", false, 0, 4},
    {"TRUST", false, 0, 2},
    {"VERDICT", false, 0, 0},
    {"REMARKS", false, 10, 5},
    /* --wide */
    {"ENDPOINT", false, 0, 0},
    {"VALID", false, 0, 0},
    {"SOURCE", false, 0, 0},
    {"NOTE", false, 0, 0},
};
#define SHOW_COLUMNS      11
#define SHOW_COLUMNS_WIDE (sizeof show_columns / sizeof show_columns[0])

struct shown {
    const struct read_options *o;
    struct table table;
    size_t n;
    bool has_memory;
};

static void verdict_text(const struct claim *c, char *out, size_t cap)
{
    const char *word = c->verdict == CLAIM_CONTRADICTED ? "CONTRADICTED"
                       : c->verdict == CLAIM_CONFIRMED  ? "confirmed"
                                                        : "-";
    (void)snprintf(out, cap, "%s%s%.10s", word, c->verdict_on ? " " : "",
                   c->verdict_on ? c->verdict_on : "");
}

static void add_word(char *out, size_t cap, const char *word)
{
    size_t n = strlen(out);
    (void)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", word);
}

/* "reasoning_effort is none", in the claim's or the source's words. */
static void when_text(const struct claim *c, char *out, size_t cap)
{
    if (!c->when.param) {
        (void)snprintf(out, cap, "%s", c->when_text ? c->when_text : "");
        return;
    }
    size_t n = (size_t)snprintf(out, cap, "when %s is %s", c->when.param,
                                c->when.is_negated ? "not " : "");
    for (size_t i = 0; i < json_array_size(c->when.values) && n < cap; i++) {
        const char *value = json_string_value(json_array_get(c->when.values, i));
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? "|" : "", value ? value : "?");
    }
}

static void remarks_text(const struct claim *c, char *out, size_t cap)
{
    char when[160];
    out[0] = '\0';
    if (c->is_local) {
        add_word(out, cap, "local");
    }
    if (c->is_derived) {
        add_word(out, cap, "derived");
    }
    if (c->variant != CLAIM_CURRENT) {
        add_word(out, cap, claim_variant_name(c->variant));
    }
    if (c->is_required) {
        add_word(out, cap, "required");
    }
    if (c->valid_to) {
        add_word(out, cap, "until ");
        size_t n = strlen(out);
        (void)snprintf(out + n, cap - n, "%s", c->valid_to);
    }
    when_text(c, when, sizeof when);
    if (when[0]) {
        add_word(out, cap, when);
    }
}

static bool wide_cells(struct table *t, const struct claim *c)
{
    char valid[64] = "";
    if (c->valid_from || c->valid_to) {
        (void)snprintf(valid, sizeof valid, "%s..%s", c->valid_from ? c->valid_from : "",
                       c->valid_to ? c->valid_to : "");
    }
    return table_cell(t, c->endpoint) && table_cell(t, valid) && table_cell(t, c->source) &&
           table_cell(t, c->note ? c->note : "");
}

static bool claim_cells(struct shown *s, const struct claim *c)
{
    struct table *t = &s->table;
    char id[24], range[160], verdict[40], remarks[320];
    (void)snprintf(id, sizeof id, "%lld", (long long)c->id);
    claim_range_text(c, range, sizeof range);
    verdict_text(c, verdict, sizeof verdict);
    remarks_text(c, remarks, sizeof remarks);
    return table_cell(t, id) && table_cell(t, c->provider) && table_cell(t, c->models) &&
           table_cell(t, c->param) && table_cell(t, claim_support_name(c->support)) &&
           table_cell(t, range[0] ? range : "-") && table_cell(t, c->wire ? c->wire : "-") &&
           table_cell(t, c->as_of) && table_cell(t, c->confidence) && table_cell(t, verdict) &&
           table_cell(t, remarks) && (!s->o->is_wide || wide_cells(t, c));
}

/* JSON is written as it comes: a list of all claims would take as much memory as the catalog. */
static bool print_claim_json(struct shown *s, const struct claim *c)
{
    json_t *j = claim_json(c);
    (void)fputs(s->n > 1 ? ",\n" : "[\n", stdout);
    bool ok = j && read_print_json(j);
    json_decref(j);
    return ok;
}

static bool show_claim(const struct claim *c, void *ud)
{
    struct shown *s = ud;
    if (s->o->on && !claim_holds_on(c, s->o->on)) {
        return true;
    }
    s->n++;
    s->has_memory = s->o->is_json ? print_claim_json(s, c) : claim_cells(s, c);
    return s->has_memory;
}

/* What was printed is ended; nothing found is said. */
static int end_show(struct shown *s, int64_t version)
{
    if (!s->has_memory) {
        return read_no_memory();
    }
    if (s->o->is_json) {
        (void)fputs(s->n ? "\n]\n" : "[]\n", stdout);
    } else if (s->n &&
               !table_print(&s->table, stdout, s->o->is_wide ? 0 : table_terminal_width())) {
        return read_no_memory();
    }
    if (s->n == 0) {
        (void)fprintf(stderr, "isothermctl: no claim of version %lld matches%s\n",
                      (long long)version, s->o->on ? " on that day" : "");
    }
    return s->n ? 0 : 1;
}

static int show(const struct read_options *o, struct catalog *c)
{
    struct catalog_error err = {0};
    struct catalog_version v = {.number = o->version};
    struct shown s = {.o = o, .has_memory = true};
    table_init(&s.table, show_columns, o->is_wide ? SHOW_COLUMNS_WIDE : SHOW_COLUMNS);
    bool ok = (!o->as_of || catalog_version_at(c, o->as_of, &v.number, &err)) &&
              catalog_get_version(c, v.number, &v, &err) &&
              catalog_check_names(c, v.number, o->provider, o->param, &err) &&
              catalog_claims(c, v.number, o->provider, o->model, o->param, show_claim, &s, &err);
    int rc = ok ? end_show(&s, v.number) : ctl_catalog_failed(&err);
    table_release(&s.table);
    return rc;
}

int ctl_catalog_show(int argc, char **argv)
{
    struct read_options o;
    struct catalog *c;
    int rc = read_begin(&show_verb, &o, &c, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (o.n_words > 0) {
        char *slash = o.model ? NULL : strchr(o.words[0], '/');
        o.provider = o.words[0];
        if (slash && slash > o.words[0] && slash[1]) { /* a model as requests name it */
            *slash = '\0';
            o.model = slash + 1;
        }
    }
    rc = show(&o, c);
    catalog_close(c);
    return rc;
}

/* ---- export */

static const struct read_verb export_verb = {
    "export",
    "usage: isothermctl catalog export [--version N] [--provider P] [--overrides] [-o FILE] "
    "[--db DB]\n"
    "\n"
    "Writes a version as one JSON document, one claim a line, for a review or for 'catalog "
    "import'.\n"
    "  --version N     that version; the newest without it\n"
    "  --provider P    this provider only\n"
    "  --overrides     only what was set on this machine\n"
    "  -o FILE         to FILE, whole or not at all; to standard output without it\n",
    "dvPlo", 0};

static bool write_piece(const char *text, size_t len, void *ud)
{
    return fwrite(text, 1, len, ud) == len;
}

static int cannot_write(const char *path)
{
    (void)fprintf(stderr, "isothermctl: '%s' cannot be written: %s\n", path,
                  strerror(errno ? errno : EIO));
    return 1;
}

/* Into a pipe or a device, which must stay what it is. */
static int export_to_stream(struct catalog *c, const struct version_export *what, const char *path)
{
    struct catalog_error err = {0};
    errno = 0;
    FILE *f = fopen(path, "we");
    if (!f) {
        return cannot_write(path);
    }
    bool ok = catalog_export(c, what, write_piece, f, &err);
    bool is_written = fclose(f) == 0;
    return ok && is_written               ? 0
           : ok || err.code == CATALOG_IO ? cannot_write(path)
                                          : ctl_catalog_failed(&err);
}

/* Beside FILE, or the file that it is a link to, then under its name: FILE is never half of it. */
static int export_to_file(struct catalog *c, const struct version_export *what, const char *given)
{
    struct catalog_error err = {0};
    struct stat st;
    char path[CTL_PATH_MAX], temp[CTL_PATH_MAX];
    if (stat(given, &st) == 0 && !S_ISREG(st.st_mode)) {
        return export_to_stream(c, what, given);
    }
    if (!realpath(given, path) && (size_t)snprintf(path, sizeof path, "%s", given) >= sizeof path) {
        errno = ENAMETOOLONG;
        return cannot_write(given);
    }
    if ((size_t)snprintf(temp, sizeof temp, "%s.%ld.new", path, (long)getpid()) >= sizeof temp) {
        errno = ENAMETOOLONG;
        return cannot_write(path);
    }
    errno = 0;
    FILE *f = fopen(temp, "wxe");
    if (!f) {
        return cannot_write(path);
    }
    bool ok = catalog_export(c, what, write_piece, f, &err);
    bool is_written = ok && fflush(f) == 0 && fsync(fileno(f)) == 0;
    int written_errno = errno;
    is_written = fclose(f) == 0 && is_written;
    if (is_written && rename(temp, path) == 0) {
        return 0;
    }
    int rc;
    if (ok) {
        errno = is_written ? errno : written_errno;
        rc = cannot_write(path);
    } else {
        rc = ctl_catalog_failed(&err);
    }
    (void)unlink(temp); /* the failure has been told */
    return rc;
}

int ctl_catalog_export(int argc, char **argv)
{
    struct read_options o;
    struct catalog_error err = {0};
    struct catalog *c;
    int rc = read_begin(&export_verb, &o, &c, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    struct version_export what = {
        .version = o.version, .provider = o.provider, .overrides_only = o.overrides_only};
    if (!catalog_check_names(c, o.version, o.provider, NULL, &err)) {
        rc = ctl_catalog_failed(&err);
    } else if (o.output && strcmp(o.output, "-") != 0) {
        rc = export_to_file(c, &what, o.output);
    } else {
        rc = catalog_export(c, &what, write_piece, stdout, &err) ? 0 : ctl_catalog_failed(&err);
    }
    catalog_close(c);
    return rc;
}

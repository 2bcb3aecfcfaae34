/* ctl_fingerprints.c - the records on the command line: options, then one function for each verb,
 * then their print.
 *
 * A row of the list has a second line only where something was changed: what was asked under
 * another name, the adjustments, the fallback. Names come from clients and providers: control bytes
 * are not printed, rows are cut at 120 columns. `show` cuts nothing.
 */
#include "gateway/ctl/ctl_fingerprints.h"

#include "gateway/base/config.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/program.h"
#include "gateway/io/records.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CTL_PATH_MAX     4096
#define COLUMNS          120
#define ROW_BYTES_MAX    8192
#define RECORD_BYTES_MAX (16u << 20)

struct options {
    const char *db, *config, *model;
    int64_t since_us, limit;
    bool is_json;
    char path[CTL_PATH_MAX];
    char **words; /* what is no option, borrowed from argv */
    int n_words;
};

static const char help[] =
    "usage: isothermctl fingerprints list [--model M] [--since TIME] [--limit N] [--json]\n"
    "       isothermctl fingerprints show ID [--json]\n"
    "       both: [--records DB] [--config FILE]\n"
    "\n"
    "list  the newest answers: when, id, status, outcome, fingerprint, model, and what was "
    "changed\n"
    "show  everything that was recorded of one\n"
    "TIME is a date and time (2026-11-30, 2026-11-30T09:30, UTC) or an age (90s, 30m, 2h, 3d, "
    "1w).\n"
    "N is 1 to 100000, 100 by default. --json prints a record a line.\n"
    "The default DB is records_path of FILE, else records.db in the state folder.\n";

static int usage(const char *text)
{
    (void)fprintf(stderr, "isothermctl: %s: see 'isothermctl fingerprints --help'\n", text);
    return 2;
}

static int failed(const char *text)
{
    (void)fprintf(stderr, "isothermctl: %s\n", text);
    return 1;
}

/* ---- options */

static bool parse_count(const char *text, int64_t max, int64_t *out)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 12 || text[n]) {
        return false;
    }
    *out = strtoll(text, NULL, 10);
    return *out >= 1 && *out <= max;
}

static bool parse_age(const char *text, int64_t *seconds)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    char number[16];
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 9 || !text[n] || text[n + 1]) {
        return false;
    }
    memcpy(number, text, n);
    number[n] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (text[n] == units[i].unit) {
            *seconds = strtoll(number, NULL, 10) * units[i].seconds;
            return true;
        }
    }
    return false;
}

bool ctl_fingerprints_since(const char *text, int64_t now_us, int64_t *out_us)
{
    static const char *const formats[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"};
    int64_t seconds;
    if (parse_age(text, &seconds)) {
        *out_us = now_us - seconds * 1000000;
        return true;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm tm = {0};
        const char *end = strptime(text, formats[i], &tm);
        if (end && (!*end || strcmp(end, "Z") == 0)) {
            int month = tm.tm_mon, day = tm.tm_mday;
            *out_us = (int64_t)timegm(&tm) * 1000000;
            return tm.tm_mon == month && tm.tm_mday == day; /* 30 February becomes March */
        }
    }
    return false;
}

static int64_t clock_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* 0, or the exit status; *is_done: help was printed. */
static int parse_options(int argc, char **argv, struct options *o, bool *is_done)
{
    static const struct option known[] = {
        {"records", required_argument, NULL, 'r'}, {"config", required_argument, NULL, 'c'},
        {"model", required_argument, NULL, 'm'},   {"since", required_argument, NULL, 's'},
        {"limit", required_argument, NULL, 'n'},   {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    int c;
    optind = 0; /* glibc: start anew */
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:h", known, NULL)) != -1) {
        switch (c) {
        case 'r':
            o->db = optarg;
            break;
        case 'c':
            o->config = optarg;
            break;
        case 'm':
            o->model = optarg;
            break;
        case 's':
            if (!ctl_fingerprints_since(optarg, clock_us(), &o->since_us)) {
                return usage("--since takes a time (2026-11-30T09:30) or an age (2h)");
            }
            break;
        case 'n':
            if (!parse_count(optarg, RECORDS_LIMIT_MAX, &o->limit)) {
                return usage("--limit takes a number from 1 to 100000");
            }
            break;
        case 'j':
            o->is_json = true;
            break;
        case 'h':
            *is_done = true;
            return fputs(help, stdout) < 0;
        default:
            return program_bad_option("isothermctl fingerprints", c, argv);
        }
    }
    o->words = argv + optind;
    o->n_words = argc - optind;
    return 0;
}

/* --records, else the configuration's, else the default. */
static bool find_records(struct options *o, struct config_error *err)
{
    if (o->db) {
        return true;
    }
    struct config *conf = NULL;
    if (o->config && !config_load(&conf, o->config, err)) {
        return false;
    }
    bool ok = config_records_path(conf, o->path, sizeof o->path);
    config_free(conf);
    o->db = o->path;
    if (!ok && err) {
        (void)snprintf(err->text, sizeof err->text,
                       "the path of the records is too long, name a shorter one");
    }
    return ok;
}

/* ---- pieces of text */

static const char *text_at(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

/* Seconds, UTC. */
static void time_text(int64_t us, char out[32])
{
    time_t s = (time_t)(us / 1000000);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        (void)snprintf(out, 32, "%s", "-");
    }
}

/* A value as JSON, strings bare, none as "-". */
static void put_value(struct buf *b, const json_t *v)
{
    bool ok = json_is_string(v)       ? buf_puts(b, json_string_value(v))
              : !v || json_is_null(v) ? buf_puts(b, "-")
                                      : jsonio_write(b, v);
    (void)ok; /* the buffer remembers */
}

/* "temperature 1.7->1 clamped" */
static void put_adjustment(struct buf *b, const json_t *a)
{
    const json_t *asked = json_object_get(a, "asked"), *sent = json_object_get(a, "sent");
    (void)buf_puts(b, text_at(a, "param")); /* the buffer remembers a failure, here and below */
    bool was_asked = asked && !json_is_null(asked);
    if (was_asked) {
        (void)buf_puts(b, " ");
        put_value(b, asked);
    }
    if (sent && !json_is_null(sent)) {
        (void)buf_puts(b, was_asked ? "->" : " ");
        put_value(b, sent);
    }
    (void)buf_printf(b, " %s", text_at(a, "action"));
}

static void put_fallback(struct buf *b, const json_t *fallback)
{
    const json_t *because = json_object_get(fallback, "because");
    (void)buf_printf(b, "fallback from %s because of", text_at(fallback, "from"));
    for (size_t i = 0; i < json_array_size(because); i++) {
        (void)buf_puts(b, i ? ", " : " ");
        put_value(b, json_array_get(because, i));
    }
}

/* Prints at most `columns` characters; what was cut ends in "..". Control bytes become '?'. */
static void print_cut(const char *text, size_t columns)
{
    size_t n = 0, bytes = 0, cut = 0;
    for (; text[bytes]; bytes++) {
        n += ((unsigned char)text[bytes] & 0xc0) != 0x80;
        if (n <= columns - 2) {
            cut = bytes + 1;
        }
    }
    size_t end = n > columns ? cut : bytes;
    for (size_t i = 0; i < end; i++) {
        unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];
        if (c == 0xc2 && next >= 0x80 &&
            next < 0xa0) { /* U+0080 to U+009F: control characters of terminals too */
            i++;
            c = '?';
        }
        (void)putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
    (void)fputs(n > columns ? "..\n" : "\n", stdout);
}

static bool print_json(const json_t *record)
{
    struct buf b;
    buf_init(&b, RECORD_BYTES_MAX);
    bool ok = jsonio_write(&b, record) && puts(b.p) >= 0;
    buf_release(&b);
    return ok;
}

/* ---- list */

struct listing {
    bool is_json;
    bool has_failed; /* memory, or stdout is closed */
    size_t n_rows;
};

/* The second line: what differs from what was asked; empty where nothing does. */
static void put_changes(struct buf *b, const json_t *record)
{
    const json_t *adjustments = json_object_get(record, "adjustments"),
                 *fallback = json_object_get(record, "fallback");
    const char *asked = text_at(record, "requested_model"), *error = text_at(record, "error_code");
    bool is_told = json_is_object(fallback) && strcmp(asked, text_at(fallback, "from")) == 0;
    if (!is_told && strcmp(asked, text_at(record, "model")) != 0) {
        (void)buf_printf(b, "asked %s -> %s", asked, text_at(record, "model"));
    }
    if (json_is_object(fallback)) {
        (void)buf_puts(b, b->len ? "; " : "");
        put_fallback(b, fallback);
    }
    for (size_t i = 0; i < json_array_size(adjustments); i++) {
        (void)buf_puts(b, i ? ", " : b->len ? "; " : "");
        put_adjustment(b, json_array_get(adjustments, i));
    }
    if (strcmp(error, "-") != 0) {
        (void)buf_printf(b, "%serror %s", b->len ? "; " : "", error);
    }
}

static bool print_row(const json_t *record, void *ud)
{
    struct listing *l = ud;
    char when[32];
    l->n_rows++;
    if (l->is_json) {
        l->has_failed = !print_json(record);
        return !l->has_failed;
    }
    if (l->n_rows == 1) {
        (void)printf("%-20s %-36s %3s %-9s %-20s %s\n", "TIME", "ID", "ST", "OUTCOME",
                     "FINGERPRINT", "MODEL");
    }
    struct buf b;
    buf_init(&b, ROW_BYTES_MAX);
    time_text(json_integer_value(json_object_get(record, "started_us")), when);
    (void)buf_printf(
        &b, "%-20s %-36s %3" PRId64 " %-9s %-20s %s", when, text_at(record, "request_id"),
        (int64_t)json_integer_value(json_object_get(record, "status")), text_at(record, "outcome"),
        text_at(record, "system_fingerprint"), text_at(record, "model"));
    print_cut(b.p ? b.p : "", COLUMNS);
    buf_clear(&b);
    put_changes(&b, record); /* where it is too long for the buffer the row is cut anyway */
    if (b.len) {
        (void)fputs("    ", stdout);
        print_cut(b.p, COLUMNS - 4);
    }
    buf_release(&b);
    l->has_failed = ferror(stdout) != 0;
    return !l->has_failed;
}

static int list(const struct options *o, struct records_reader *r)
{
    struct failure f = {.status = 0};
    struct listing l = {.is_json = o->is_json};
    const struct records_query q = {o->model, o->since_us, o->limit};
    if (!records_list(r, &q, print_row, &l, &f)) {
        return failed(f.message);
    }
    if (l.has_failed || fflush(stdout) != 0) {
        return failed("the list cannot be written to standard output");
    }
    if (l.n_rows == 0 && !o->is_json) {
        (void)fputs("isothermctl: there are no such records\n", stderr);
    }
    return 0;
}

/* ---- show */

static void print_field(const char *name, const json_t *v)
{
    struct buf b;
    buf_init(&b, RECORD_BYTES_MAX);
    put_value(&b, v);
    (void)printf("%-24s ", name);
    print_cut(b.p ? b.p : "-", RECORD_BYTES_MAX);
    buf_release(&b);
}

static void print_time(const char *name, const json_t *v)
{
    char when[32];
    int64_t us = json_integer_value(v);
    time_text(us, when);
    when[strcspn(when, "Z")] = '\0';
    (void)printf("%-24s %s.%06" PRId64 "Z\n", name, when, us % 1000000);
}

/* One line for each parameter, two where it was sent otherwise than asked. */
static void print_parameters(const json_t *record)
{
    json_t *asked = json_object_get(record, "asked"), *sent = json_object_get(record, "sent"), *v;
    const char *key;
    char name[80];
    (void)puts("parameters");
    json_object_foreach (asked, key, v) {
        bool is_changed = !json_equal(v, json_object_get(sent, key));
        (void)snprintf(name, sizeof name, "  %s%s", key, is_changed ? " asked" : "");
        print_field(name, v);
        if (is_changed) {
            (void)snprintf(name, sizeof name, "  %s sent", key);
            print_field(name, json_object_get(sent, key));
        }
    }
    json_object_foreach (sent, key, v) {
        if (!json_object_get(asked, key)) {
            (void)snprintf(name, sizeof name, "  %s sent", key);
            print_field(name, v);
        }
    }
}

static void print_adjustments(const json_t *list)
{
    (void)printf("%-24s %s\n", "adjustments", json_array_size(list) ? "" : "-");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *a = json_array_get(list, i);
        struct buf b;
        buf_init(&b, RECORD_BYTES_MAX);
        (void)buf_puts(&b, "  ");
        put_adjustment(&b, a);
        (void)buf_printf(&b, " (%s", text_at(a, "reason"));
        const json_t *claim = json_object_get(a, "claim");
        if (claim && !json_is_null(claim)) {
            (void)buf_puts(&b, ", claim ");
            put_value(&b, claim);
        }
        (void)buf_puts(&b, ")");
        print_cut(b.p ? b.p : "", RECORD_BYTES_MAX);
        buf_release(&b);
    }
}

static void put_ms(struct buf *b, const char *what, int64_t us)
{
    (void)buf_printf(b, ", %s %" PRId64 ".%" PRId64 " ms", what, us / 1000, us % 1000 / 100);
}

/* "openai/gpt-4o 429 rate_limit_exceeded, took 12.5 ms, waited 0.0 ms"; "-": no status came. */
static void print_attempt(const json_t *a)
{
    const json_t *error = json_object_get(a, "error");
    int64_t started = json_integer_value(json_object_get(a, "started_us"));
    struct buf b;
    buf_init(&b, RECORD_BYTES_MAX);
    put_value(&b, json_object_get(a, "model"));
    (void)buf_puts(&b, " ");
    put_value(&b, json_object_get(a, "status"));
    (void)buf_printf(&b, " %s", json_is_string(error) ? json_string_value(error) : "ok");
    put_ms(&b, "took", json_integer_value(json_object_get(a, "ended_us")) - started);
    put_ms(&b, "waited", json_integer_value(json_object_get(a, "waited_us")));
    (void)printf("%-24s ", "attempt");
    print_cut(b.p ? b.p : "-", RECORD_BYTES_MAX);
    buf_release(&b);
}

/* Every field of the record, so that nothing new is forgotten here. */
static void print_record(json_t *record)
{
    const char *key;
    json_t *v;
    json_object_foreach (record, key, v) {
        size_t n = strlen(key);
        if (n > 3 && strcmp(key + n - 3, "_us") == 0) {
            char name[40];
            (void)snprintf(name, sizeof name, "%.*s", (int)(n - 3), key);
            print_time(name, v);
        } else if (strcmp(key, "asked") == 0) {
            print_parameters(record);
        } else if (strcmp(key, "adjustments") == 0) {
            print_adjustments(v);
        } else if (strcmp(key, "attempts") == 0 && json_array_size(v)) {
            for (size_t i = 0; i < json_array_size(v); i++) {
                print_attempt(json_array_get(v, i));
            }
        } else if (strcmp(key, "sent") != 0) {
            print_field(key, v);
        }
    }
}

static int show(const struct options *o, struct records_reader *r, const char *id)
{
    struct failure f = {.status = 0};
    json_t *record = records_get(r, id, &f);
    if (!record) {
        return failed(f.message);
    }
    bool ok = true;
    if (o->is_json) {
        ok = print_json(record);
    } else {
        print_record(record);
    }
    json_decref(record);
    return ok && fflush(stdout) == 0 ? 0
                                     : failed("the record cannot be written to standard output");
}

int ctl_fingerprints(int argc, char **argv)
{
    struct options o = {.db = NULL};
    struct config_error err = {.text = ""};
    struct failure f = {.status = 0};
    struct records_reader *r = NULL;
    bool is_done = false;
    int status = parse_options(argc, argv, &o, &is_done);
    if (status || is_done) {
        return status;
    }
    bool is_list = o.n_words == 1 && strcmp(o.words[0], "list") == 0;
    bool is_show = o.n_words == 2 && strcmp(o.words[0], "show") == 0;
    if (!is_list && !is_show) {
        return usage("the verbs are 'list' and 'show ID'");
    }
    if (!find_records(&o, &err)) {
        return failed(err.text);
    }
    if (!records_reader_open(&r, o.db, &f)) {
        return failed(f.message);
    }
    status = is_list ? list(&o, r) : show(&o, r, o.words[1]);
    records_reader_close(r);
    return status;
}

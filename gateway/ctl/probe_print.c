/* probe_print.c - see probe_print.h. */
#include "gateway/ctl/probe_print.h"

#include "gateway/base/jsonio.h"
#include "gateway/ctl/ctl_catalog.h"
#include "gateway/ctl/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_finding(enum probe_verdict v)
{
    return v != PROBE_HOLDS && v != PROBE_NOT_TOLD_APART;
}

/* "too narrow": for people */
static void spell(enum probe_verdict v, char out[24])
{
    (void)snprintf(out, 24, "%s", probe_verdict_name(v));
    for (char *p = out; *p; p++) {
        *p = *p == '_' ? ' ' : *p;
    }
}

/* ---- the command that mends */

static void add(char *out, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void add(char *out, size_t cap, const char *fmt, ...)
{
    size_t n = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out + n, cap - n, fmt, ap);
    va_end(ap);
}

/* One word for a shell. */
static void quote(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    out[n++] = '\'';
    for (; *s && n + 6 < cap; s++) {
        if (*s == '\'') {
            memcpy(out + n, "'\\''", 4);
            n += 4;
        } else {
            out[n++] = *s;
        }
    }
    out[n++] = '\'';
    out[n] = '\0';
}

/* An expression that takes this model id only. */
static void exactly(const char *model, char *out, size_t cap)
{
    size_t n = 0;
    out[n++] = '^';
    for (; *model && n + 5 < cap; model++) {
        bool is_special = strchr(".[](){}*+?|^$\\", *model) != NULL;
        if (is_special) {
            out[n++] = '[';
        }
        out[n++] = *model;
        if (is_special) {
            out[n++] = ']';
        }
    }
    out[n++] = '$';
    out[n] = '\0';
}

static void add_number(char *out, size_t cap, const char *option, double x)
{
    char text[JSONIO_DOUBLE_MAX];
    (void)jsonio_format_double(x, text);
    size_t n = strlen(text);
    if (n > 2 && strcmp(text + n - 2, ".0") == 0) {
        text[n - 2] = '\0';
    }
    add(out, cap, " --%s %s", option, text);
}

static void add_fields(char *out, size_t cap, const struct probe_report *p)
{
    const struct probe_mend *m = &p->mend;
    if (m->has_support) {
        add(out, cap, " --support %s", claim_support_name(m->support));
    }
    if (m->wire) {
        add(out, cap, " --wire %s", m->wire);
    }
    if (m->has_min) {
        add_number(out, cap, "min", m->min);
    }
    if (m->has_max) {
        add_number(out, cap, "max", m->max);
    }
    if (m->has_items) {
        add(out, cap, " --items-max %lld", (long long)m->items_max);
    }
}

void probe_print_set(struct probe_result *r, const struct target *target, const char *day)
{
    const struct probe_report *p = &r->report;
    char pattern[300], models[640], fields[200] = "";
    r->set[0] = '\0';
    if (is_finding(p->verdict)) {
        add_fields(fields, sizeof fields, p);
    }
    if (!fields[0]) {
        return;
    }
    if (p->claim) {
        (void)snprintf(pattern, sizeof pattern, "%s", p->claim->models);
    } else {
        exactly(target->model, pattern, sizeof pattern);
    }
    quote(pattern, models, sizeof models);
    (void)snprintf(
        r->set, sizeof r->set, "isothermctl catalog set %s %s %s%s --source 'probe of %s on %s'",
        target->provider->id, models, sampling_table[p->param].name, fields, target->model, day);
}

/* ---- the table */

static const struct table_column columns[] = {{.title = "PARAMETER"},
                                              {.title = "CLAIM", .is_right = true},
                                              {.title = "VERDICT"},
                                              {.title = "ERROR", .is_right = true, .goes_at = 1},
                                              {.title = "REQUESTS", .is_right = true, .goes_at = 2},
                                              {.title = "WHY", .cut_to = 40}};

static bool add_row(struct table *t, const struct probe_report *r)
{
    char claim[24] = "-", error[24] = "-", requests[24], verdict[24];
    if (r->claim) {
        (void)snprintf(claim, sizeof claim, "%lld", (long long)r->claim->id);
    }
    if (r->error_rate > 0) {
        (void)snprintf(error, sizeof error, "%.1e", r->error_rate);
    }
    (void)snprintf(requests, sizeof requests, "%u", r->n_trials);
    spell(r->verdict, verdict);
    return table_cell(t, sampling_table[r->param].name) && table_cell(t, claim) &&
           table_cell(t, verdict) && table_cell(t, error) && table_cell(t, requests) &&
           table_cell(t, r->text);
}

static bool print_table(const struct probe_result *list, size_t n)
{
    struct table t;
    bool ok = true;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < n && ok; i++) {
        ok = add_row(&t, &list[i].report);
    }
    ok = ok && table_print(&t, stdout, table_terminal_width());
    table_release(&t);
    return ok;
}

static void print_summary(const struct probe_result *list, size_t n, const struct probe_summary *s)
{
    unsigned counts[PROBE_NOT_TOLD_APART + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        counts[list[i].report.verdict]++;
    }
    (void)printf("\n%s: %zu claims:", s->target->name, n);
    bool is_first = true;
    for (int v = 0; v <= PROBE_NOT_TOLD_APART; v++) {
        char word[24];
        spell((enum probe_verdict)v, word);
        if (counts[v]) {
            (void)printf("%s %u %s", is_first ? "" : ",", counts[v],
                         v == PROBE_HOLDS && counts[v] > 1 ? "hold" : word);
            is_first = false;
        }
    }
    (void)printf("; %u requests, %lld prompt and %lld answer tokens%s\n", s->count.n_requests,
                 (long long)s->count.prompt_tokens, (long long)s->count.answer_tokens,
                 s->is_whole ? "" : "; broken off");
    is_first = true;
    for (size_t i = 0; i < n; i++) {
        bool is_bad = is_finding(list[i].report.verdict);
        if (is_bad && is_first) {
            (void)printf("\nTo mend:\n");
            is_first = false;
        }
        if (is_bad && list[i].set[0]) {
            (void)printf("  %s\n", list[i].set);
        } else if (is_bad) {
            (void)printf("  # %s: by hand: %s\n", sampling_table[list[i].report.param].name,
                         list[i].report.text);
        }
    }
}

/* ---- JSON */

static json_t *result_json(const struct probe_result *r)
{
    const struct probe_report *p = &r->report;
    json_t *o = json_pack("{s:s, s:s, s:s, s:f, s:i}", "param", sampling_table[p->param].name,
                          "verdict", probe_verdict_name(p->verdict), "text", p->text, "error_rate",
                          p->error_rate, "requests", (int)p->n_trials);
    bool ok = o && json_object_set_new(o, "claim",
                                       p->claim ? json_integer(p->claim->id) : json_null()) == 0;
    ok = ok && (!p->name || json_object_set_new(o, "name", json_string(p->name)) == 0);
    ok = ok && (!r->set[0] || json_object_set_new(o, "set", json_string(r->set)) == 0);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static int print_json(const struct probe_result *list, size_t n, const struct probe_summary *s)
{
    json_t *results = json_array();
    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(results, result_json(&list[i])) != 0) {
            json_decref(results);
            return ctl_print_json(NULL);
        }
    }
    return ctl_print_json(
        json_pack("{s:s, s:s, s:s, s:b, s:i, s:I, s:I, s:o}", "provider", s->target->provider_name,
                  "model", s->target->model, "on", s->day, "complete", s->is_whole, "requests",
                  (int)s->count.n_requests, "prompt_tokens", (json_int_t)s->count.prompt_tokens,
                  "answer_tokens", (json_int_t)s->count.answer_tokens, "results", results));
}

int probe_print(const struct probe_result *list, size_t n, const struct probe_summary *s,
                bool is_json)
{
    if (is_json) {
        return print_json(list, n, s);
    }
    if (!print_table(list, n)) {
        (void)fputs("isothermctl: catalog probe: out of memory\n", stderr);
        return 1;
    }
    print_summary(list, n, s);
    return 0;
}

/* ---- --dry-run */

static json_t *request_json(struct probe_sender *sender, const struct probe_trial *t,
                            enum param param, unsigned n)
{
    struct failure f = {.status = 0};
    struct buf b;
    buf_init(&b, 1u << 20);
    json_t *body = probe_sender_body(sender, t, &b, &f) ? jsonio_parse(b.p, b.len, &f) : NULL;
    buf_release(&b);
    (void)json_object_del(body, "messages"); /* the prompt says it */
    json_t *o = json_pack("{s:s, s:s, s:i, s:s}", "param", sampling_table[param].name, "why",
                          t->why, "times", (int)n, "prompt", t->prompt);
    bool ok = o && (body ? json_object_set(o, "request", body)
                         : json_object_set_new(o, "error", json_string(f.message))) == 0;
    json_decref(body);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static bool print_request(const json_t *o, unsigned n)
{
    struct buf b;
    const char *error = json_string_value(json_object_get(o, "error"));
    buf_init(&b, 1u << 20);
    bool ok = error || jsonio_write(&b, json_object_get(o, "request"));
    if (ok) {
        bool is_long = !error && b.len > 160;
        (void)printf("%3u  %-28s  %-42s  %.*s%s\n", n,
                     json_string_value(json_object_get(o, "param")),
                     json_string_value(json_object_get(o, "why")), is_long ? 157 : 1000,
                     error ? error : b.p, is_long ? "..." : "");
    }
    buf_release(&b);
    return ok;
}

bool probe_print_requests(struct probe_sender *sender, struct probe *p, enum param param,
                          json_t *list)
{
    const struct probe_trial *t;
    unsigned n;
    for (size_t i = 0; (t = probe_list(p, i, &n)) != NULL; i++) {
        json_t *o = n > 0 ? request_json(sender, t, param, n) : NULL;
        bool ok = n == 0 || (o && (list ? json_array_append(list, o) == 0 : print_request(o, n)));
        json_decref(o);
        if (!ok) {
            (void)fputs("isothermctl: catalog probe: out of memory\n", stderr);
            return false;
        }
    }
    return true;
}

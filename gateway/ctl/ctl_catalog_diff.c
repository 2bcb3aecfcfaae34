/* ctl_catalog_diff.c - verbs that read the catalog through time: diff, history. */
#include "gateway/ctl/ctl_catalog_read.h"

#include "catalog/claim_json.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include "gateway/ctl/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- diff */

static const struct read_verb diff_verb = {
    "diff",
    "usage: isothermctl catalog diff [[A] B | --since DATE] [--provider P] [--wide] [--json] [--db "
    "DB]\n"
    "\n"
    "What differs between two versions, claim by claim, a line for each field that changed:\n"
    "  ~ PROVIDER MODELS PARAMETER: FIELD BEFORE -> AFTER (endpoint; source), + added, - removed\n"
    "A B are numbers. B alone is compared with the version before it; without any the newest is.\n"
    "  --since DATE    the newest with what was the newest on that day, or with the oldest\n"
    "  --provider P    of this provider only\n"
    "  --wide          nothing is cut to the terminal\n",
    "dPswj", 2};

struct compared {
    const struct read_options *o;
    struct catalog_version from, to;
    json_t *list; /* for --json, else NULL */
    size_t n_added, n_removed, n_changed;
    unsigned pattern_max; /* characters of a pattern that are shown; 0: all */
    bool has_memory;
    bool is_oldest; /* --since lies before the oldest version, which is taken */
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* A value in a line: JSON as it was written, a text that is one plain word without quotes. */
static bool put_value(struct buf *b, const json_t *v)
{
    const char *s = json_string_value(v);
    if (!v) {
        return buf_puts(b, "none");
    }
    bool is_word = s && *s && !strpbrk(s, " \t\"'\\(),;") && strlen(s) < 64;
    return is_word ? buf_puts(b, s) : jsonio_write(b, v);
}

/* "~ mistral ^(mistral|ministral) temperature: " */
static bool put_subject(const struct compared *d, struct buf *b, char sign, const json_t *claim,
                        bool is_provider)
{
    if (is_provider) {
        return buf_printf(b, "%c %s: ", sign, text_of(claim, "id"));
    }
    const char *models = text_of(claim, "models");
    bool is_cut = d->pattern_max && strlen(models) > d->pattern_max;
    return buf_printf(b, "%c %s %.*s%s %s: ", sign, text_of(claim, "provider"),
                      is_cut ? (int)d->pattern_max - 2 : (int)strlen(models), models,
                      is_cut ? ".." : "", text_of(claim, "param"));
}

static bool put_origin(struct buf *b, const json_t *claim, bool has_source)
{
    bool is_local = json_is_true(json_object_get(claim, "local"));
    bool ok = buf_printf(b, " (%s", text_of(claim, "endpoint"));
    ok = ok && (!has_source || buf_printf(b, "; source: %s", text_of(claim, "source")));
    return ok && buf_puts(b, is_local ? "; local)" : ")");
}

/* What comes from a file of somebody else must not reach the terminal as an escape. */
static bool print_line(struct buf *b)
{
    bool ok = !b->is_failed;
    for (size_t i = 0; i < b->len; i++) {
        if ((unsigned char)b->p[i] < ' ' || b->p[i] == 0x7f) {
            b->p[i] = '?';
        }
    }
    (void)fprintf(stdout, "%s\n", b->len ? b->p : "");
    buf_clear(b);
    return ok;
}

static bool print_change(const struct compared *d, const struct version_difference *v,
                         struct buf *b)
{
    json_t *fields = difference_fields(v->before, v->after);
    size_t n = json_array_size(fields);
    bool ok = fields != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        bool is_source = strcmp(name, "source") == 0;
        if (is_source && n > 1) {
            continue; /* it stands behind the others */
        }
        ok = put_subject(d, b, '~', v->after, v->is_provider) && buf_printf(b, "%s ", name) &&
             put_value(b, json_object_get(v->before, name)) && buf_puts(b, " -> ") &&
             put_value(b, json_object_get(v->after, name)) &&
             (v->is_provider || put_origin(b, v->after, !is_source));
        ok = print_line(b) && ok;
    }
    json_decref(fields);
    return ok;
}

/* ", when top_p is not 1, 0.9" */
static bool put_when(struct buf *b, const json_t *when)
{
    const json_t *in = json_object_get(when, "in"), *not_in = json_object_get(when, "not_in");
    const json_t *values = in ? in : not_in;
    if (!when) {
        return true;
    }
    bool ok = buf_printf(b, ", when %s is %s", text_of(when, "param"), in ? "" : "not ");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *word = json_string_value(json_array_get(values, i));
        ok = ok && buf_printf(b, "%s%s", i ? ", " : "", word ? word : "?");
    }
    return ok;
}

static bool print_one_sided(const struct compared *d, const struct version_difference *v,
                            struct buf *b)
{
    const json_t *j = v->after ? v->after : v->before;
    char range[160];
    claim_range_text_json(j, range, sizeof range);
    bool ok = put_subject(d, b, v->after ? '+' : '-', j, v->is_provider);
    if (ok && v->is_provider) {
        ok = buf_printf(b, "provider %s", text_of(j, "title"));
    } else if (ok) {
        const char *variant = text_of(j, "variant");
        ok = buf_printf(b, "%s%s%s%s%s", text_of(j, "support"), range[0] ? " " : "", range,
                        variant[0] ? ", " : "", variant) &&
             put_when(b, json_object_get(j, "when")) && put_origin(b, j, true);
    }
    return print_line(b) && ok;
}

static bool take_difference(const struct version_difference *v, void *ud)
{
    struct compared *d = ud;
    const json_t *any = v->after ? v->after : v->before;
    const char *provider = text_of(any, v->is_provider ? "id" : "provider");
    if (d->o->provider && strcmp(d->o->provider, provider) != 0) {
        return true;
    }
    size_t *counts[] = {[VERSION_ADDED] = &d->n_added,
                        [VERSION_REMOVED] = &d->n_removed,
                        [VERSION_CHANGED] = &d->n_changed};
    ++*counts[v->change];
    if (d->list) {
        d->has_memory = json_array_append_new(d->list, difference_json(v)) == 0;
        return d->has_memory;
    }
    struct buf b;
    buf_init(&b, LIMIT_BODY_BYTES);
    d->has_memory =
        v->change == VERSION_CHANGED ? print_change(d, v, &b) : print_one_sided(d, v, &b);
    buf_release(&b);
    return d->has_memory;
}

static int end_diff(struct compared *d)
{
    if (!d->has_memory) {
        json_decref(d->list);
        return read_no_memory();
    }
    if (!d->list) {
        bool is_same = d->n_added + d->n_removed + d->n_changed == 0;
        (void)printf("%sversion %lld -> %lld: ", is_same ? "" : "\n", (long long)d->from.number,
                     (long long)d->to.number);
        if (is_same) {
            (void)printf("no difference");
        } else {
            (void)printf("%zu changed, %zu added, %zu removed", d->n_changed, d->n_added,
                         d->n_removed);
        }
        if (d->is_oldest) {
            (void)printf(" (version %lld of %.10s is the oldest)", (long long)d->from.number,
                         d->from.created);
        }
        (void)putchar('\n');
        return 0;
    }
    json_t *o = json_pack("{s:I, s:I, s:{s:I, s:I, s:I}, s:o}", "from", (json_int_t)d->from.number,
                          "to", (json_int_t)d->to.number, "summary", "changed",
                          (json_int_t)d->n_changed, "added", (json_int_t)d->n_added, "removed",
                          (json_int_t)d->n_removed, "differences", d->list);
    bool ok = o && read_print_json(o) && putchar('\n') != EOF;
    json_decref(o);
    return ok ? 0 : read_no_memory();
}

/* 0: good; 2: said. */
static int parse_numbers(const struct read_options *o, int64_t *from, int64_t *to)
{
    const char *first = o->n_words > 0 ? o->words[0] : NULL;
    const char *second = o->n_words > 1 ? o->words[1] : NULL;
    if (o->since && first) {
        return ctl_catalog_usage("diff", "--since DATE takes the place of the numbers");
    }
    if ((first && !ctl_catalog_number(first, second ? from : to)) ||
        (second && !ctl_catalog_number(second, to))) {
        return ctl_catalog_usage("diff", "versions are numbers from 1, see 'catalog versions'");
    }
    return 0;
}

/* The version that was the newest on the day, or the oldest where none is as old: what has changed
 * since then is what has changed since there is a catalog. */
static bool find_since(struct catalog *c, const char *since, struct compared *d, int64_t *from,
                       struct catalog_error *err)
{
    struct catalog_error own = {0};
    if (catalog_version_at(c, since, from, &own)) {
        return true;
    }
    d->is_oldest = own.code == CATALOG_NOT_FOUND;
    *from = 1; /* versions are numbered from 1, and none is taken away */
    return d->is_oldest || catalog_fail(err, own.code, "%s", own.text);
}

/* The two versions that the words and options name. -1: they are there; else the exit status. */
static int choose_versions(const struct read_options *o, struct catalog *c, struct compared *d)
{
    struct catalog_error err = {0};
    int64_t from = 0, to = 0;
    int rc = parse_numbers(o, &from, &to);
    if (rc) {
        return rc;
    }
    bool ok = catalog_get_version(c, to, &d->to, &err) &&
              (!o->since || find_since(c, o->since, d, &from, &err));
    if (ok && !from && !d->to.parent) {
        (void)fprintf(stderr, "isothermctl: version %lld is the first: nothing is before it\n",
                      (long long)d->to.number);
        return 1;
    }
    ok = ok && catalog_get_version(c, from ? from : d->to.parent, &d->from, &err) &&
         catalog_check_names(c, CATALOG_ANY_VERSION, o->provider, NULL, &err);
    return ok ? -1 : ctl_catalog_failed(&err);
}

int ctl_catalog_diff(int argc, char **argv)
{
    struct read_options o;
    struct catalog_error err = {0};
    struct catalog *c;
    int rc = read_begin(&diff_verb, &o, &c, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    struct compared d = {.o = &o, .has_memory = true};
    rc = choose_versions(&o, c, &d);
    if (rc < 0) {
        unsigned width = o.is_wide ? 0 : table_terminal_width();
        d.pattern_max = !width ? 0 : width < 60 ? 20 : width / 3;
        d.list = o.is_json ? json_array() : NULL;
        if (catalog_diff(c, d.from.number, d.to.number, take_difference, &d, &err)) {
            rc = end_diff(&d);
        } else {
            json_decref(d.list);
            rc = ctl_catalog_failed(&err);
        }
    }
    catalog_close(c);
    return rc;
}

/* ---- history */

static const struct read_verb history_verb = {
    "history",
    "usage: isothermctl catalog history PROVIDER PARAM [--model M] [--json] [--db DB]\n"
    "\n"
    "Every claim that any version held about a parameter, in the order in which they came up: in\n"
    "which versions, when it held at the provider, what it says, its source, who brought it in, "
    "and\n"
    "what probes and traffic have said about it. Exit status 1: nothing was ever claimed.\n"
    "  --model M       claims whose pattern takes the model id M\n",
    "dmj", 2};

struct lives {
    json_t *list; /* of life_json(), each with "evidence" */
};

static bool take_life(const struct version_life *l, void *ud)
{
    struct lives *h = ud;
    return json_array_append_new(h->list, life_json(l)) == 0;
}

static bool put_evidence(struct buf *b, const json_t *e)
{
    bool is_against = strcmp(text_of(e, "verdict"), "contradicted") == 0;
    long long n = json_integer_value(json_object_get(e, "n"));
    long long status = json_integer_value(json_object_get(e, "status"));
    (void)buf_printf(b, "    %s by %s %.10s", is_against ? "CONTRADICTED" : "confirmed",
                     text_of(e, "origin"), text_of(e, "seen"));
    if (n > 1) {
        (void)buf_printf(b, ", %lld times", n);
    }
    (void)buf_printf(b, ", %s", text_of(e, "model"));
    if (status) {
        (void)buf_printf(b, ", status %lld", status);
    }
    if (text_of(e, "value")[0]) {
        (void)buf_printf(b, ", sent %s", text_of(e, "value"));
    }
    if (text_of(e, "excerpt")[0]) {
        (void)buf_printf(b, ": %s", text_of(e, "excerpt"));
    }
    return print_line(b);
}

/* "versions 1 to 3, believed 2026-01-01 to 2026-05-02; by me: because" */
static bool put_span(struct buf *b, const json_t *life)
{
    long long first = json_integer_value(json_object_get(life, "first"));
    long long last = json_integer_value(json_object_get(life, "last"));
    const char *until = text_of(life, "until");
    if (!last) {
        (void)buf_printf(b, "versions %lld to now", first);
    } else if (last == first) {
        (void)buf_printf(b, "version %lld", first);
    } else {
        (void)buf_printf(b, "versions %lld to %lld", first, last);
    }
    (void)buf_printf(b, ", believed %s %.10s%s%.10s; by %s: %s", until[0] ? "from" : "since",
                     text_of(life, "since"), until[0] ? " to " : "", until, text_of(life, "author"),
                     text_of(life, "reason"));
    return print_line(b);
}

static bool put_claim(struct buf *b, const json_t *claim)
{
    char range[160];
    const char *from = text_of(claim, "valid_from"), *to = text_of(claim, "valid_to");
    const char *variant = text_of(claim, "variant");
    const json_t *when = json_object_get(claim, "when");
    claim_range_text_json(claim, range, sizeof range);
    (void)buf_printf(b, "    %s%s%s%s%s%s", text_of(claim, "support"), range[0] ? " " : "", range,
                     variant[0] ? ", " : "", variant,
                     json_is_true(json_object_get(claim, "local")) ? ", local" : "");
    (void)put_when(b, when);
    if (from[0] || to[0]) {
        (void)buf_printf(b, ", at the provider%s%s%s%s", from[0] ? " from " : "", from,
                         to[0] ? " until " : "", to);
    }
    bool ok = print_line(b);
    (void)buf_printf(b, "    claim %lld, %s, %s",
                     (long long)json_integer_value(json_object_get(claim, "id")),
                     text_of(claim, "models"), text_of(claim, "endpoint"));
    ok = print_line(b) && ok;
    (void)buf_printf(b, "    source, %s, %s: %s", text_of(claim, "as_of"),
                     text_of(claim, "confidence"), text_of(claim, "source"));
    return print_line(b) && ok;
}

static int print_lives(const json_t *list)
{
    struct buf b;
    bool ok = true;
    buf_init(&b, LIMIT_BODY_BYTES);
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const json_t *life = json_array_get(list, i), *evidence = json_object_get(life, "evidence");
        (void)fputs(i ? "\n" : "", stdout);
        ok = put_span(&b, life) && put_claim(&b, json_object_get(life, "claim"));
        for (size_t k = 0; ok && k < json_array_size(evidence); k++) {
            ok = put_evidence(&b, json_array_get(evidence, k));
        }
    }
    buf_release(&b);
    return ok ? 0 : read_no_memory();
}

static int history(const struct read_options *o, struct catalog *c)
{
    struct catalog_error err = {0};
    const char *provider = o->words[0], *param = o->words[1];
    struct lives h = {.list = json_array()};
    if (!h.list) {
        return read_no_memory();
    }
    if (!catalog_check_names(c, CATALOG_ANY_VERSION, provider, param, &err) ||
        !catalog_history(c, provider, param, o->model, take_life, &h, &err) ||
        !evidence_add_json(c, h.list, &err)) {
        json_decref(h.list);
        return ctl_catalog_failed(&err);
    }
    bool is_empty = json_array_size(h.list) == 0;
    int rc;
    if (o->is_json) {
        rc = read_print_list(h.list);
    } else {
        rc = print_lives(h.list);
        json_decref(h.list);
    }
    if (rc == 0 && is_empty) {
        (void)fprintf(stderr, "isothermctl: no version ever held a claim about this%s\n",
                      o->model ? " for that model" : "");
        rc = 1;
    }
    return rc;
}

int ctl_catalog_history(int argc, char **argv)
{
    struct read_options o;
    struct catalog *c;
    int rc = read_begin(&history_verb, &o, &c, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    rc = o.n_words == 2 ? history(&o, c) : ctl_catalog_usage("history", "it needs PROVIDER PARAM");
    catalog_close(c);
    return rc;
}

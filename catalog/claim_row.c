/* claim_row.c - see claim_row.h. Where texts and JSON go is the caller's: the snapshot interns and
 * shares them, a reader that shows a few claims borrows the ones and owns the others.
 */
#include "claim_row.h"

#include <string.h>

bool claim_row_bad(int64_t id, const char *what, struct catalog_error *err)
{
    return catalog_fail(err, CATALOG_BAD_DB, "catalog row %lld: %s: build the catalog again",
                        (long long)id, what);
}

bool claim_row_bad_pattern(int64_t id, const struct catalog_error *why, struct catalog_error *err)
{
    return why->code == CATALOG_NOMEM
               ? catalog_fail(err, why->code, "%s", why->text)
               : catalog_fail(err, CATALOG_BAD_DB,
                              "catalog row %lld: 'models' %s: build the catalog again",
                              (long long)id, why->text);
}

json_t *claim_row_parse(int64_t id, const char *text, struct catalog_error *err)
{
    json_error_t e;
    json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
    if (!j && json_error_code(&e) == json_error_out_of_memory) {
        (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
    } else if (!j) {
        (void)claim_row_bad(id, e.text, err);
    }
    return j;
}

/* ---- as JSON */

enum shape { SHAPE_PLAIN, SHAPE_BOOL, SHAPE_JSON };
#define SHAPE_TEXT   SHAPE_PLAIN
#define SHAPE_NUMBER SHAPE_PLAIN
#define SHAPE_COUNT  SHAPE_PLAIN
#define SHAPE_LIST   SHAPE_JSON
#define SHAPE_OBJECT SHAPE_JSON
#define SHAPE_ANY    SHAPE_JSON

static const struct {
    const char *name;
    enum shape shape;
} columns[COLUMN_COUNT] = {
#define X(name, kind) {#name, SHAPE_##kind},
    CLAIM_COLUMNS(X)
#undef X
};

static json_t *cell_json(int64_t id, struct db_cell c, enum shape shape, struct catalog_error *err)
{
    json_t *j = NULL;
    if (shape == SHAPE_JSON && c.type == DB_TEXT) {
        return claim_row_parse(id, c.s, err);
    }
    if (c.type == DB_TEXT) {
        j = json_string(c.s);
        if (!j) {
            (void)claim_row_bad(id, "a text is not UTF-8", err);
        }
        return j;
    }
    j = shape == SHAPE_BOOL ? json_boolean(c.i != 0)
        : c.type == DB_INT  ? json_integer(c.i)
                            : json_real(c.d);
    if (!j) {
        (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    return j;
}

json_t *claim_row_json(int64_t id, const struct db_cell *cells, struct catalog_error *err)
{
    json_t *o = json_object();
    bool ok = o && json_object_set_new_nocheck(o, "id", json_integer(id)) == 0;
    if (!ok) {
        (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    for (int i = 0; ok && i < COLUMN_COUNT; i++) {
        bool is_empty = cells[i].type == DB_NULL || cells[i].type == DB_HASH;
        if (is_empty || (columns[i].shape == SHAPE_BOOL && !cells[i].i)) {
            continue;
        }
        json_t *j = cell_json(id, cells[i], columns[i].shape, err);
        ok = j && (json_object_set_new_nocheck(o, columns[i].name, j) == 0 ||
                   catalog_fail(err, CATALOG_NOMEM, "out of memory"));
    }
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* ---- as a struct */

static const char *const support_names[] = {[CLAIM_YES] = "yes",
                                            [CLAIM_REJECTED] = "rejected",
                                            [CLAIM_IGNORED] = "ignored",
                                            [CLAIM_ABSENT] = "absent"};
static const char *const variant_names[] = {[CLAIM_CURRENT] = "current",
                                            [CLAIM_CONDITIONAL] = "conditional",
                                            [CLAIM_HISTORY] = "history",
                                            [CLAIM_DISPUTED] = "disputed"};

const char *claim_support_name(enum claim_support s)
{
    return support_names[s];
}

const char *claim_variant_name(enum claim_variant v)
{
    return variant_names[v];
}

/* The place of `word` in four names; -1: none of them. */
static int find_word(const char *const names[4], const char *word)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

static bool take_words(struct claim *c, const struct db_cell *cells, struct catalog_error *err)
{
    const char *support = cells[COLUMN_support].s, *variant = cells[COLUMN_variant].s;
    int s = support ? find_word(support_names, support) : -1;
    int v = variant ? find_word(variant_names, variant) : CLAIM_CURRENT;
    if (s < 0 || v < 0) {
        return claim_row_bad(c->id, "unknown word in 'support' or 'variant'", err);
    }
    c->support = (enum claim_support)s;
    c->variant = (enum claim_variant)v;
    return true;
}

static bool take_texts(struct claim *c, const struct db_cell *cells, const struct claim_keep *keep,
                       struct catalog_error *err)
{
    const struct {
        enum claim_column column;
        const char **out;
        bool is_needed;
    } texts[] = {
        {COLUMN_provider, &c->provider, true},
        {COLUMN_models, &c->models, true},
        {COLUMN_endpoint, &c->endpoint, true},
        {COLUMN_param, &c->param, true},
        {COLUMN_source_param, &c->source_param, false},
        {COLUMN_wire, &c->wire, false},
        {COLUMN_when_text, &c->when_text, false},
        {COLUMN_valid_from, &c->valid_from, false},
        {COLUMN_valid_to, &c->valid_to, false},
        {COLUMN_source, &c->source, true},
        {COLUMN_as_of, &c->as_of, true},
        {COLUMN_confidence, &c->confidence, true},
        {COLUMN_note, &c->note, false},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct db_cell cell = cells[texts[i].column];
        if (cell.type == DB_TEXT && !keep->text(keep->ud, cell.s, texts[i].out)) {
            return false;
        }
        if (texts[i].is_needed && cell.type != DB_TEXT) {
            return claim_row_bad(c->id, "a field is missing", err);
        }
    }
    c->param_id = sampling_find(c->param);
    return true;
}

static struct value cell_value(struct db_cell c)
{
    return c.type == DB_INT    ? (struct value){.type = VALUE_INT, .i = c.i}
           : c.type == DB_REAL ? (struct value){.type = VALUE_NUMBER, .d = c.d}
                               : (struct value){.type = VALUE_NONE};
}

static double cell_number(struct db_cell c)
{
    return c.type == DB_INT ? (double)c.i : c.d;
}

static void take_numbers(struct claim *c, const struct db_cell *cells)
{
    c->is_required = cells[COLUMN_required].i != 0;
    c->min = cell_number(cells[COLUMN_min]);
    c->max = cell_number(cells[COLUMN_max]);
    c->min_value = cell_value(cells[COLUMN_min]);
    c->max_value = cell_value(cells[COLUMN_max]);
    c->has_min = c->min_value.type != VALUE_NONE;
    c->has_max = c->max_value.type != VALUE_NONE;
    c->min_exclusive = cells[COLUMN_min_exclusive].i != 0;
    c->max_exclusive = cells[COLUMN_max_exclusive].i != 0;
    c->is_integer = cells[COLUMN_integer].i != 0;
    c->items_max = cells[COLUMN_items_max].i;
    c->len_max = cells[COLUMN_len_max].i;
    c->len_min = cells[COLUMN_len_min].i;
    c->no_blank = cells[COLUMN_no_blank].i != 0;
    c->is_derived = cells[COLUMN_derived].i != 0;
    c->is_local = cells[COLUMN_local].i != 0;
}

static bool take_condition(struct claim *c, const json_t *when, struct catalog_error *err)
{
    const json_t *in = json_object_get(when, "in");
    c->when.param = json_string_value(json_object_get(when, "param"));
    c->when.is_negated = in == NULL;
    c->when.values = in ? in : json_object_get(when, "not_in");
    if (!c->when.param || !json_is_array(c->when.values)) {
        return claim_row_bad(c->id, "bad 'when'", err);
    }
    c->when.id = sampling_find(c->when.param);
    return true;
}

static bool take_json(struct claim *c, const struct db_cell *cells, const struct claim_keep *keep,
                      struct catalog_error *err)
{
    const json_t *fallback = NULL, *when = NULL;
    const struct {
        enum claim_column column;
        const json_t **out;
    } fields[CLAIM_ROW_JSON] = {
        {COLUMN_values, &c->values},
        {COLUMN_conflicts, &c->conflicts},
        {COLUMN_conflicts_text, &c->conflicts_text},
        {COLUMN_needs, &c->needs},
        {COLUMN_adds, &c->adds},
        {COLUMN_default, &fallback},
        {COLUMN_when, &when},
    };
    for (size_t i = 0; i < CLAIM_ROW_JSON; i++) {
        struct db_cell cell = cells[fields[i].column];
        if (cell.type == DB_TEXT && !keep->json(keep->ud, c->id, cell.s, fields[i].out)) {
            return false;
        }
    }
    if (fallback) {
        c->fallback = value_from_json(fallback);
    }
    if (c->param_id != PARAM_COUNT && sampling_table[c->param_id].type == VALUE_STRING &&
        c->fallback.type == VALUE_JSON) {
        c->param_id = PARAM_COUNT; /* another thing of the same name: llama.cpp's and KoboldCpp's
                                      order is a list of samplers, ours a word */
    }
    return !when || take_condition(c, when, err);
}

bool claim_row_read(struct claim *out, int64_t id, const struct db_cell *cells,
                    const struct claim_keep *keep, struct catalog_error *err)
{
    struct claim c = {.id = id, .fallback = {.type = VALUE_NONE}};
    if (!take_texts(&c, cells, keep, err) || !take_words(&c, cells, err) ||
        !take_json(&c, cells, keep, err)) {
        return false;
    }
    take_numbers(&c, cells);
    *out = c;
    return true;
}

/* ---- a row on its own */

struct own {
    struct claim_row *row;
    struct catalog_error *err;
};

static bool borrow_text(void *ud, const char *text, const char **out)
{
    (void)ud;
    *out = text;
    return true;
}

static bool own_json(void *ud, int64_t id, const char *text, const json_t **out)
{
    struct own *own = ud;
    json_t *j = claim_row_parse(id, text, own->err);
    if (j) {
        own->row->owned[own->row->n_owned++] = j;
        *out = j;
    }
    return j != NULL;
}

bool claim_row_init(struct claim_row *r, int64_t id, const struct db_cell *cells,
                    struct catalog_error *err)
{
    struct own own = {r, err};
    struct claim_keep keep = {borrow_text, own_json, &own};
    r->n_owned = 0;
    if (!claim_row_read(&r->claim, id, cells, &keep, err)) {
        claim_row_release(r);
        return false;
    }
    return true;
}

void claim_row_release(struct claim_row *r)
{
    if (r) {
        for (size_t i = 0; i < r->n_owned; i++) {
            json_decref(r->owned[i]);
        }
        r->n_owned = 0;
    }
}

/* tokenizer_steps.c - normalizer, pre_tokenizer, decoder and post_processor of tokenizer.json. Each
 * is one step or a Sequence of them; each kind of step is one row of a table. What is not in a
 * table is refused by name, so that no model runs on wrong tokens.
 */
#include "tokenizer_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NESTING_MAX = 4 };

/* Cut before each U+2581. */
static const char metaspace_pattern[] =
    TOKENIZER_SPACE "[^" TOKENIZER_SPACE "]*|[^" TOKENIZER_SPACE "]+";

struct steps {
    struct tokenizer *t;
    struct engine_error *err;
    const char *field;       /* "normalizer" ... */
    bool is_byte_level_done; /* no cut can follow it: the text is no text any more */
    bool has_template;
};

typedef bool step_fn(struct steps *s, const json_t *step);
struct step_kind {
    const char *type;
    step_fn *read; /* NULL: has nothing to say */
};

static bool refuse(const struct steps *s, const char *why)
{
    return engine_fail(s->err, ENGINE_BAD_FILE, "", "tokenizer.json: %s: %s", s->field, why);
}

static bool is_text(const json_t *j, const char *text)
{
    return json_is_string(j) && strcmp(json_string_value(j), text) == 0;
}

/* Walks one step, or the steps of a Sequence; `list` is the name of its array. */
static bool walk(struct steps *s, const struct step_kind *kinds, const char *list,
                 const json_t *step, int depth)
{
    if (json_is_null(step)) {
        return true;
    }
    const json_t *type = json_object_get(step, "type"), *item;
    if (!json_is_string(type)) {
        return refuse(s, "a step has no type");
    }
    if (is_text(type, "Sequence")) {
        const json_t *items = json_object_get(step, list);
        size_t i;
        if (!json_is_array(items) || depth == NESTING_MAX) {
            return refuse(s, json_is_array(items) ? "nested too deeply"
                                                  : "a Sequence without its list");
        }
        json_array_foreach (items, i, item) {
            if (!walk(s, kinds, list, item, depth + 1)) {
                return false;
            }
        }
        return true;
    }
    for (const struct step_kind *k = kinds; k->type; k++) {
        if (is_text(type, k->type)) {
            return !k->read || k->read(s, step);
        }
    }
    return engine_fail(s->err, ENGINE_BAD_FILE, "", "tokenizer.json: %s: '%s' is not supported",
                       s->field,
                       tokenizer_quote(json_string_value(type), json_string_length(type)).s);
}

static bool read_part(struct steps *s, const char *field, const struct jsonscan_span *span,
                      const struct step_kind *kinds, const char *list)
{
    json_t *j;
    s->field = field;
    if (!tokenizer_json_value(span, field, &j, s->err)) {
        return false;
    }
    bool done = walk(s, kinds, list, j, 0);
    json_decref(j);
    return done;
}

/* A boolean field: absent is `absent`; anything but a boolean is refused. */
static bool read_flag(struct steps *s, const json_t *step, const char *name, bool absent, bool *out)
{
    const json_t *j = json_object_get(step, name);
    *out = j ? json_is_true(j) : absent;
    return !j || json_is_boolean(j) ||
           engine_fail(s->err, ENGINE_BAD_FILE, "",
                       "tokenizer.json: %s: %s is neither true nor false", s->field, name);
}

/* ---- normalizer */

/* The next step, to be filled in; NULL: refused. */
static struct normalize_step *add_step(struct steps *s, enum normalize_kind kind)
{
    struct normalize *n = &s->t->normal;
    if (s->t->normalizes_spaces || s->t->prefix != TOKENIZER_PREFIX_NONE) {
        refuse(s, "a step after those that put U+2581 is not supported");
        return NULL;
    }
    if (n->n_steps == NORMALIZE_STEPS_MAX) {
        refuse(s, "too many steps");
        return NULL;
    }
    n->steps[n->n_steps] = (struct normalize_step){.kind = kind};
    return &n->steps[n->n_steps++];
}

static bool read_form(struct steps *s, const json_t *step)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    struct normalize_step *to = add_step(s, NORMALIZE_FORM);
    for (int i = 0; to && i < 4; i++) {
        if (is_text(json_object_get(step, "type"), names[i])) {
            to->form = (enum nfc_form)i;
        }
    }
    return to != NULL;
}

static bool read_lowercase(struct steps *s, const json_t *step)
{
    (void)step;
    return add_step(s, NORMALIZE_LOWERCASE) != NULL;
}

static bool read_strip_step(struct steps *s, const json_t *step)
{
    struct normalize_step *to = add_step(s, NORMALIZE_STRIP);
    return to && read_flag(s, step, "strip_left", true, &to->at_left) &&
           read_flag(s, step, "strip_right", true, &to->at_right);
}

static bool read_prepend(struct steps *s, const json_t *step)
{
    if (!is_text(json_object_get(step, "prepend"), TOKENIZER_SPACE)) {
        return refuse(s, "Prepend with anything but U+2581 is not supported");
    }
    s->t->prefix = TOKENIZER_PREFIX_ALWAYS;
    return true;
}

static bool copy_text(const json_t *j, char to[NORMALIZE_TEXT_MAX], size_t *len)
{
    *len = json_string_length(j);
    if (!json_is_string(j) || *len > NORMALIZE_TEXT_MAX) {
        return false;
    }
    memcpy(to, json_string_value(j), *len);
    return true;
}

static bool read_replace(struct steps *s, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern"),
                 *content = json_object_get(step, "content");
    const json_t *from = json_object_get(pattern, "String");
    if (is_text(from, " ") && is_text(content, TOKENIZER_SPACE)) {
        s->t->kind = TOKENIZER_SPACES;
        s->t->normalizes_spaces = true;
        return true;
    }
    bool squeezes = is_text(json_object_get(pattern, "Regex"), " {2,}");
    struct normalize_step *to = add_step(s, squeezes ? NORMALIZE_SQUEEZE : NORMALIZE_REPLACE);
    if (!to) {
        return false;
    }
    if (!copy_text(content, to->to, &to->to_len)) {
        return refuse(s, "Replace.content is not a text of at most 256 bytes");
    }
    return squeezes || (copy_text(from, to->from, &to->from_len) && to->from_len > 0) ||
           refuse(s, "Replace is supported for a String of 1 to 256 bytes and the Regex ' {2,}'");
}

static const struct step_kind normalizers[] = {{"NFC", read_form},
                                               {"NFD", read_form},
                                               {"NFKC", read_form},
                                               {"NFKD", read_form},
                                               {"Lowercase", read_lowercase},
                                               {"Strip", read_strip_step},
                                               {"Prepend", read_prepend},
                                               {"Replace", read_replace},
                                               {0}};

/* ---- pre-tokenizer */

static const struct pretokenize_rule isolated = {PRETOKENIZE_ISOLATED, false};

static bool add_pattern(struct steps *s, const char *pattern, size_t len,
                        struct pretokenize_rule rule)
{
    if (s->is_byte_level_done) {
        return refuse(s, "a step after ByteLevel is not supported");
    }
    return pretokenize_add(&s->t->pre, pattern, len, rule, "tokenizer.json: pre_tokenizer", s->err);
}

static bool read_byte_level(struct steps *s, const json_t *step)
{
    bool has_prefix, has_pattern;
    if (!read_flag(s, step, "add_prefix_space", true, &has_prefix) ||
        !read_flag(s, step, "use_regex", true, &has_pattern)) {
        return false;
    }
    if (s->t->kind == TOKENIZER_SPACES) {
        return refuse(s, "ByteLevel does not go with U+2581 for spaces");
    }
    if (has_prefix) {
        s->t->prefix = TOKENIZER_PREFIX_ALWAYS;
        if (!pretokenize_add_space(&s->t->pre, "tokenizer.json: pre_tokenizer", s->err)) {
            return false;
        }
    }
    const char *gpt2 = wordscan_pattern(WORDSCAN_GPT2);
    if (has_pattern && !add_pattern(s, gpt2, strlen(gpt2), isolated)) {
        return false;
    }
    s->t->kind = TOKENIZER_BYTES;
    s->is_byte_level_done = true;
    return true;
}

static bool read_digits(struct steps *s, const json_t *step)
{
    bool is_each;
    if (!read_flag(s, step, "individual_digits", false, &is_each)) {
        return false;
    }
    return is_each ? add_pattern(s, "\\p{N}", 5, isolated) : add_pattern(s, "\\p{N}+", 6, isolated);
}

/* A literal as a pattern. */
static bool add_literal(struct steps *s, const char *text, size_t len, struct pretokenize_rule rule)
{
    char *escaped = malloc(2 * len + 1);
    size_t n = 0;
    if (!escaped) {
        return engine_fail(s->err, ENGINE_NOMEM, "", "out of memory");
    }
    for (size_t i = 0; i < len; i++) {
        if (strchr("\\^$.[|()?*+{}#", text[i])) {
            escaped[n++] = '\\';
        }
        escaped[n++] = text[i];
    }
    bool done = add_pattern(s, escaped, n, rule);
    free(escaped);
    return done;
}

static bool read_rule(struct steps *s, const json_t *step, struct pretokenize_rule *rule)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const json_t *behavior = json_object_get(step, "behavior");
    for (int i = 0; i < 5; i++) {
        if (is_text(behavior, names[i])) {
            rule->behavior = (enum pretokenize_behavior)i;
            return read_flag(s, step, "invert", false, &rule->is_inverted);
        }
    }
    return refuse(s, "behavior is none of Isolated, Removed, MergedWithPrevious, MergedWithNext, "
                     "Contiguous");
}

static bool read_split(struct steps *s, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"),
                 *literal = json_object_get(pattern, "String");
    struct pretokenize_rule rule;
    if (!read_rule(s, step, &rule)) {
        return false;
    }
    if (s->t->normalizes_spaces && is_text(literal, " ")) {
        return true; /* no space is left to split at */
    }
    if (json_is_string(regex)) {
        return add_pattern(s, json_string_value(regex), json_string_length(regex), rule);
    }
    if (json_is_string(literal) && json_string_length(literal) > 0 &&
        json_string_length(literal) <= PRETOKENIZE_PATTERN_MAX) {
        return add_literal(s, json_string_value(literal), json_string_length(literal), rule);
    }
    return refuse(s, "Split has no pattern");
}

static bool read_punctuation(struct steps *s, const json_t *step)
{
    static const char pattern[] = "[\\p{P}!-/:-@\\[-`{-~]";
    struct pretokenize_rule rule = isolated;
    if (json_object_get(step, "behavior") && !read_rule(s, step, &rule)) {
        return false;
    }
    return add_pattern(s, pattern, sizeof pattern - 1, rule);
}

static bool read_metaspace(struct steps *s, const json_t *step)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    bool has_prefix, is_split;
    if (!read_flag(s, step, "add_prefix_space", true, &has_prefix) ||
        !read_flag(s, step, "split", true, &is_split)) {
        return false;
    }
    if (!is_text(json_object_get(step, "replacement"), TOKENIZER_SPACE)) {
        return refuse(s, "Metaspace with anything but U+2581 is not supported");
    }
    if (s->t->kind != TOKENIZER_UNKNOWN || s->t->pre.n_stages > 0) {
        return refuse(s, "Metaspace beside other steps is not supported");
    }
    if (!has_prefix || is_text(scheme, "never")) {
        s->t->prefix = TOKENIZER_PREFIX_NONE;
    } else if (!scheme || is_text(scheme, "always")) {
        s->t->prefix = TOKENIZER_PREFIX_ALWAYS;
    } else if (is_text(scheme, "first")) {
        s->t->prefix = TOKENIZER_PREFIX_FIRST;
    } else {
        return refuse(s, "prepend_scheme is none of always, first, never");
    }
    s->t->kind = TOKENIZER_SPACES;
    s->t->is_metaspace = true;
    return !is_split || add_pattern(s, metaspace_pattern, sizeof metaspace_pattern - 1, isolated);
}

static const struct step_kind pre_tokenizers[] = {
    {"ByteLevel", read_byte_level},    {"Digits", read_digits},       {"Split", read_split},
    {"Punctuation", read_punctuation}, {"Metaspace", read_metaspace}, {0}};

/* ---- decoder: tokens' bytes follow from the kind; only what is taken from the front has to be
 * known */

static bool read_strip(struct steps *s, const json_t *step)
{
    json_int_t start = json_integer_value(json_object_get(step, "start")),
               stop = json_integer_value(json_object_get(step, "stop"));
    if (!is_text(json_object_get(step, "content"), " ") || start < 0 || start > 1 || stop != 0) {
        return refuse(s, "Strip of anything but one space in front is not supported");
    }
    s->t->strips_first = start == 1;
    return true;
}

static bool read_metaspace_decoder(struct steps *s, const json_t *step)
{
    bool has_prefix;
    if (!read_flag(s, step, "add_prefix_space", true, &has_prefix)) {
        return false;
    }
    s->t->strips_first = has_prefix && !is_text(json_object_get(step, "prepend_scheme"), "never");
    return true;
}

static const struct step_kind decoders[] = {{"ByteLevel", NULL},
                                            {"Replace", NULL},
                                            {"ByteFallback", NULL},
                                            {"Fuse", NULL},
                                            {"Strip", read_strip},
                                            {"Metaspace", read_metaspace_decoder},
                                            {0}};

/* ---- post-processor */

/* The id of a special token of a template: the first of special_tokens[name].ids, else by the
 * vocabulary. */
static int32_t template_id(const struct steps *s, const json_t *step, const json_t *name)
{
    const json_t *special =
        json_object_get(json_object_get(step, "special_tokens"), json_string_value(name));
    const json_t *ids = json_object_get(special, "ids");
    if (json_array_size(ids) == 1 && json_is_integer(json_array_get(ids, 0))) {
        json_int_t id = json_integer_value(json_array_get(ids, 0));
        return vocab_spelling(&s->t->vocab, id, NULL) ? (int32_t)id : -1;
    }
    return special ? -1
                   : vocab_find(&s->t->vocab, json_string_value(name), json_string_length(name));
}

static bool read_template(struct steps *s, const json_t *step)
{
    const json_t *items = json_object_get(step, "single"), *item;
    size_t i;
    s->has_template = true;
    if (!json_is_array(items)) {
        return refuse(s, "TemplateProcessing.single is not a list");
    }
    json_array_foreach (items, i, item) {
        const json_t *name = json_object_get(json_object_get(item, "SpecialToken"), "id");
        if (!json_is_string(name)) {
            break; /* the text itself; what a template puts behind it does not belong to a prompt */
        }
        if (s->t->adds_bos) {
            return refuse(s, "TemplateProcessing.single puts more than one token in front, which "
                             "is not supported");
        }
        s->t->bos = template_id(s, step, name);
        s->t->adds_bos = true;
        if (s->t->bos < 0) {
            return refuse(s, "TemplateProcessing.special_tokens names no token of the vocabulary");
        }
    }
    return true;
}

static const struct step_kind post_processors[] = {
    {"ByteLevel", NULL}, {"TemplateProcessing", read_template}, {0}};

bool tokenizer_steps_read(struct tokenizer *t, const struct tokenizer_parts *p, bool *has_template,
                          struct engine_error *err)
{
    struct steps s = {.t = t, .err = err};
    if (!read_part(&s, "normalizer", &p->normalizer, normalizers, "normalizers") ||
        !read_part(&s, "pre_tokenizer", &p->pre_tokenizer, pre_tokenizers, "pretokenizers") ||
        !read_part(&s, "decoder", &p->decoder, decoders, "decoders") ||
        !read_part(&s, "post_processor", &p->post_processor, post_processors, "processors")) {
        return false;
    }
    if (t->kind == TOKENIZER_UNKNOWN) {
        s.field = "pre_tokenizer";
        return refuse(&s, "neither ByteLevel nor U+2581 for spaces; other kinds are not supported");
    }
    *has_template = s.has_template;
    return true;
}

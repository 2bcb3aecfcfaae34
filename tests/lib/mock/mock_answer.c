/* mock_answer.c - the story in eleven words; JSON cut into pieces where JSON is asked for. */
#include "mock_answer.h"
#include "gateway/base/jsonio.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX (80u << 20)
#define HUGE_WORD_BYTES  (512u << 10) /* 64 of them are 32 MB */

static const char *const story[] = {"Once",  " there", " was", " a",     " lamp", " that",
                                    " told", " only",  " the", " truth", "."};
static const char *const thoughts[] = {"A", " lamp", " will", " do", "."};
static const char *const declined[] = {"I", " cannot", " help", " with", " that", "."};
static const char *const others[] = {" one", " no", " two", " of", "!"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- shared by the dialects */

static void join(const char *const *words, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        (void)buf_puts(out, words[i]);
    }
}

void mock_put(struct buf *out, json_t *json)
{
    bool ok = json && jsonio_write(out, json);
    assert(ok || out->is_failed || !json);
    (void)ok;
    json_decref(json);
}

void mock_put_event(struct buf *out, const char *name, json_t *json)
{
    if (name) {
        (void)buf_printf(out, "event: %s\n", name);
    }
    (void)buf_puts(out, "data: ");
    mock_put(out, json);
    (void)buf_puts(out, "\n\n");
}

void mock_header(struct mock_headers *h, const char *name, const char *fmt, ...)
{
    va_list ap;
    if (h->n == MOCK_HEADERS_MAX) {
        return;
    }
    (void)snprintf(h->name[h->n], sizeof h->name[0], "%s", name);
    va_start(ap, fmt);
    (void)vsnprintf(h->value[h->n], sizeof h->value[0], fmt, ap);
    va_end(ap);
    h->n++;
}

json_t *mock_arguments(const struct mock_call *call)
{
    json_t *o = json_loads(call->arguments, 0, NULL);
    return o ? o : json_object();
}

double mock_logprob(const struct mock_answer *a, size_t i, size_t k)
{
    (void)a;
    return -0.125 * (double)(1 + i % 4) - (double)k;
}

const char *mock_alternative(const struct mock_answer *a, size_t i, size_t k)
{
    /* One letter each beyond the words: twenty alternatives that differ. */
    static const char *const letters[] = {"b", "c", "d", "e", "f", "g", "h", "i", "j",
                                          "k", "l", "m", "n", "o", "p", "q", "r"};
    if (k == 0) {
        return a->word[i];
    }
    return k <= COUNT(others) ? others[k - 1] : letters[(k - 1 - COUNT(others)) % COUNT(letters)];
}

int mock_token_id(const char *token)
{
    unsigned h = 5381;
    for (; *token; token++) {
        h = h * 33 + (unsigned char)*token;
    }
    return (int)(h % 50000);
}

json_t *mock_bytes(const char *token)
{
    json_t *list = json_array();
    for (; *token; token++) {
        (void)json_array_append_new(list, json_integer((unsigned char)*token));
    }
    return list;
}

/* ---- reading bodies */

const json_t *mock_get(const json_t *body, const char *path)
{
    const json_t *v = jsonio_get_path(body, path);
    return json_is_null(v) ? NULL : v;
}

int64_t mock_get_int(const json_t *body, const char *path)
{
    const json_t *v = mock_get(body, path);
    double d = json_number_value(v);
    return json_is_integer(v)                         ? json_integer_value(v)
           : json_is_real(v) && d > -1e15 && d < 1e15 ? (int64_t)d
                                                      : 0;
}

bool mock_get_bool(const json_t *body, const char *path)
{
    return json_is_true(mock_get(body, path));
}

const char *mock_get_string(const json_t *body, const char *path)
{
    return json_string_value(mock_get(body, path));
}

void mock_wish_function(struct mock_wish *w, const char *name, const json_t *parameters)
{
    if (name && w->n_functions < MOCK_CALLS_MAX) {
        w->function[w->n_functions] = name;
        w->parameters[w->n_functions++] = parameters;
    }
}

void mock_wish_only(struct mock_wish *w, const char *name)
{
    w->is_forced = true;
    for (size_t i = 0; name && i < w->n_functions; i++) {
        if (strcmp(w->function[i], name) == 0) {
            w->function[0] = w->function[i];
            w->parameters[0] = w->parameters[i];
            w->n_functions = 1;
        }
    }
}

/* ---- a value for a schema */

#define VALUE_DEPTH_MAX 12

struct making {
    const json_t *root;
    unsigned depth;
};

static json_t *make_value(struct making *m, const json_t *schema);

static const json_t *follow(const struct making *m, const json_t *schema)
{
    for (int i = 0; i < 16; i++) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        if (!ref || strncmp(ref, "#/", 2) != 0) {
            break;
        }
        const json_t *at = m->root;
        char path[256];
        (void)snprintf(path, sizeof path, "%s", ref + 2);
        for (char *save = NULL, *key = strtok_r(path, "/", &save); key;
             key = strtok_r(NULL, "/", &save)) {
            at = json_object_get(at, key);
        }
        schema = at;
    }
    return schema;
}

#define OPTIONAL_DEPTH 4 /* deeper down only what must be is made */

/* The first of anyOf, oneOf that is not null; deep down null, where it is one. */
static const json_t *choose(const json_t *list, unsigned depth)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *s = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(s, "type"));
        bool is_null = type && strcasecmp(type, "null") == 0;
        if (is_null == (depth > OPTIONAL_DEPTH)) {
            return s;
        }
    }
    return json_array_get(list, 0);
}

static json_t *make_object(struct making *m, const json_t *schema)
{
    const char *key;
    json_t *sub, *o = json_object();
    const json_t *required = json_object_get(schema, "required");
    json_object_foreach (json_object_get(schema, "properties"), key, sub) {
        bool is_needed = m->depth < OPTIONAL_DEPTH;
        for (size_t i = 0; !is_needed && i < json_array_size(required); i++) {
            is_needed = strcmp(json_string_value(json_array_get(required, i)), key) == 0;
        }
        if (is_needed) {
            (void)json_object_set_new(o, key, make_value(m, sub));
        }
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name && !json_object_get(o, name)) {
            (void)json_object_set_new(o, name, json_string("lamp"));
        }
    }
    return o;
}

static json_t *make_array(struct making *m, const json_t *schema)
{
    json_t *list = json_array();
    const json_t *items = json_object_get(schema, "items");
    json_int_t min = json_integer_value(json_object_get(schema, "minItems"));
    const json_t *max = json_object_get(schema, "maxItems");
    json_int_t n = min > 1 ? min : json_is_integer(max) && json_integer_value(max) < 1 ? 0 : 1;
    for (json_int_t i = 0; i < n && i < 64 && (m->depth < VALUE_DEPTH_MAX || i < min); i++) {
        (void)json_array_append_new(list, make_value(m, items));
    }
    return list;
}

static json_t *make_string(const json_t *schema)
{
    static const struct {
        const char *format, *text;
    } formats[] = {{"date", "2026-11-30"},
                   {"time", "09:30:00Z"},
                   {"date-time", "2026-11-30T09:30:00Z"},
                   {"email", "lamp@example.org"},
                   {"uri", "https://example.org/lamp"},
                   {"hostname", "example.org"},
                   {"ipv4", "192.0.2.1"},
                   {"uuid", "00000000-0000-4000-8000-000000000001"}};
    const char *format = json_string_value(json_object_get(schema, "format"));
    json_int_t min = json_integer_value(json_object_get(schema, "minLength"));
    const json_t *max = json_object_get(schema, "maxLength");
    char text[1024] = "lamp";
    for (size_t i = 0; format && i < COUNT(formats); i++) {
        if (strcmp(formats[i].format, format) == 0) {
            return json_string(formats[i].text);
        }
    }
    for (size_t len = 4; (json_int_t)len < min && len < sizeof text - 1; len++) {
        text[len] = "lamp"[len % 4];
    }
    if (json_is_integer(max) && json_integer_value(max) < (json_int_t)strlen(text)) {
        text[json_integer_value(max) < 0 ? 0 : json_integer_value(max)] = '\0';
    }
    return json_string(text);
}

static json_t *make_number(const json_t *schema, bool is_integer)
{
    const json_t *min = json_object_get(schema, "minimum"),
                 *above = json_object_get(schema, "exclusiveMinimum"),
                 *max = json_object_get(schema, "maximum"),
                 *below = json_object_get(schema, "exclusiveMaximum"),
                 *step = json_object_get(schema, "multipleOf");
    double v = 1;
    v = json_is_number(max) && v > json_number_value(max) ? json_number_value(max) : v;
    v = json_is_number(below) && v >= json_number_value(below)
            ? json_number_value(below) - (is_integer ? 1 : 0.5)
            : v;
    v = json_is_number(min) && v < json_number_value(min) ? json_number_value(min) : v;
    v = json_is_number(above) && v <= json_number_value(above)
            ? json_number_value(above) + (is_integer ? 1 : 0.0625)
            : v;
    if (json_number_value(step) > 0) {
        double times = v / json_number_value(step);
        int64_t whole = (int64_t)times;
        v = json_number_value(step) * (double)((double)whole < times ? whole + 1 : whole);
    }
    return is_integer ? json_integer((json_int_t)(v < 0 ? v : v + 0.999999)) : json_real(v);
}

static const char *type_of(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    if (json_is_array(type)) {
        for (size_t i = 0; i < json_array_size(type); i++) {
            const char *name = json_string_value(json_array_get(type, i));
            if (name && strcasecmp(name, "null") != 0) {
                return name;
            }
        }
        return "null";
    }
    return json_is_string(type)                    ? json_string_value(type)
           : json_object_get(schema, "properties") ? "object"
           : json_object_get(schema, "items")      ? "array"
                                                   : "string";
}

static json_t *make_typed(struct making *m, const json_t *schema)
{
    const char *type = type_of(schema);
    if (strcasecmp(type, "object") == 0) {
        return make_object(m, schema);
    }
    if (strcasecmp(type, "array") == 0) {
        return make_array(m, schema);
    }
    if (strcasecmp(type, "boolean") == 0) {
        return json_true();
    }
    if (strcasecmp(type, "null") == 0) {
        return json_null();
    }
    bool is_integer = strcasecmp(type, "integer") == 0;
    return is_integer || strcasecmp(type, "number") == 0 ? make_number(schema, is_integer)
                                                         : make_string(schema);
}

static json_t *make_all(struct making *m, const json_t *parts)
{
    json_t *all = NULL;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = make_value(m, json_array_get(parts, i));
        if (json_is_object(all) && json_is_object(part)) {
            (void)json_object_update(all, part);
            json_decref(part);
        } else {
            json_decref(all);
            all = part;
        }
    }
    return all ? all : json_object();
}

static json_t *make_value(struct making *m, const json_t *schema)
{
    json_t *v;
    schema = follow(m, schema);
    const json_t *constant = json_object_get(schema, "const"),
                 *values = json_object_get(schema, "enum"), *any = json_object_get(schema, "anyOf"),
                 *one = json_object_get(schema, "oneOf"), *all = json_object_get(schema, "allOf");
    if (constant || json_array_size(values) > 0) {
        return json_deep_copy(constant ? constant : json_array_get(values, 0));
    }
    if (m->depth == VALUE_DEPTH_MAX) {
        return json_null();
    }
    m->depth++;
    if (json_array_size(any) > 0 || json_array_size(one) > 0) {
        v = make_value(m, choose(any ? any : one, m->depth));
    } else if (json_array_size(all) > 0) {
        v = make_all(m, all);
    } else {
        v = make_typed(m, schema);
    }
    m->depth--;
    return v;
}

/* A value that a JSON Schema takes: types, enum, const, properties, items, limits, references
 * inside of it, the usual formats; not patterns. Types may be in capitals, as Google writes them.
 * Yours. */
static json_t *schema_value(const json_t *schema)
{
    struct making m = {schema, 0};
    return make_value(&m, schema);
}

/* ---- the answer */

/* Keeps `text` (taken over) until the release; "" where there is no memory. */
static const char *keep(struct mock_made *m, char *text)
{
    assert(m->n_texts < COUNT(m->text));
    if (!text) {
        return "";
    }
    m->text[m->n_texts++] = text;
    return text;
}

static char *text_of(json_t *json)
{
    struct buf b;
    buf_init(&b, ANSWER_BYTES_MAX);
    mock_put(&b, json);
    return buf_take(&b, NULL);
}

static void say(struct mock_answer *a, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n && a->n_words < MOCK_WORDS_MAX; i++) {
        a->word[a->n_words++] = words[i];
    }
}

/* Text in pieces of eight bytes, more where it would be too many; never inside of a character. */
static void say_text(struct mock_made *m, const char *text)
{
    size_t len = strlen(text), size = len / (MOCK_WORDS_MAX - 8) + 1;
    size = size < 8 ? 8 : size + 3;
    for (size_t at = 0; at < len && m->a.n_words < MOCK_WORDS_MAX;) {
        size_t end = at + size < len ? at + size : len;
        while (end < len && ((unsigned char)text[end] & 0xC0) == 0x80) {
            end++;
        }
        m->a.word[m->a.n_words++] = keep(m, strndup(text + at, end - at));
        at = end;
    }
}

static void say_json(struct mock_made *m, const struct mock_wish *w)
{
    json_t *v =
        w->schema ? schema_value(w->schema) : json_pack("{s:s,s:i}", "lamp", "truth", "count", 3);
    char *text = text_of(v);
    if (text) {
        say_text(m, text);
    }
    free(text);
}

static void say_much(struct mock_made *m)
{
    char *word = malloc(HUGE_WORD_BYTES + 1);
    if (word) {
        memset(word, 'a', HUGE_WORD_BYTES);
        word[HUGE_WORD_BYTES] = '\0';
        const char *kept = keep(m, word);
        while (m->a.n_words < MOCK_WORDS_MAX) {
            m->a.word[m->a.n_words++] = kept;
        }
    }
}

static void call_functions(struct mock_made *m, const struct mock_wish *w, bool all,
                           uint64_t number)
{
    struct mock_answer *a = &m->a;
    size_t n = all && !w->is_single ? w->n_functions : w->n_functions > 0;
    for (size_t i = 0; i < n; i++) {
        struct mock_call *c = &a->call[a->n_calls++];
        (void)snprintf(c->id, sizeof c->id, "c%08u", (unsigned)((number * 10 + i) % 100000000));
        c->name = w->function[i];
        json_t *v = w->parameters[i] ? schema_value(w->parameters[i]) : json_object();
        c->arguments = keep(m, text_of(v));
    }
    a->finish = MOCK_TOOLS;
}

/* As many tokens as were asked for. */
static void limit(struct mock_answer *a, int64_t max)
{
    if (max > 0 && (uint64_t)max < a->n_words) {
        a->n_words = (size_t)max;
        a->finish = MOCK_LENGTH;
    }
}

/* The first place of a stop string in the text; SIZE_MAX: none. */
static size_t find_stop(const char *text, const json_t *stops, const char **which)
{
    size_t best = SIZE_MAX, n = json_is_string(stops) ? 1 : json_array_size(stops);
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_is_string(stops) ? stops : json_array_get(stops, i));
        const char *at = s && s[0] ? strstr(text, s) : NULL;
        if (at && (size_t)(at - text) < best) {
            best = (size_t)(at - text);
            *which = s;
        }
    }
    return best;
}

static void stop(struct mock_made *m, const json_t *stops)
{
    struct mock_answer *a = &m->a;
    struct buf text;
    buf_init(&text, ANSWER_BYTES_MAX);
    join(a->word, a->n_words, &text);
    size_t end = text.p ? find_stop(text.p, stops, &a->stop) : SIZE_MAX;
    buf_release(&text);
    if (end == SIZE_MAX) {
        return;
    }
    a->finish = MOCK_STOP_STRING;
    for (size_t i = 0, at = 0; i < a->n_words; i++) {
        size_t len = strlen(a->word[i]);
        if (at + len >= end) {
            bool is_part = end > at && end - at < len;
            if (is_part) {
                a->word[i] = keep(m, strndup(a->word[i], end - at));
            }
            a->n_words = i + (end > at);
            break;
        }
        at += len;
    }
}

static void decline(struct mock_answer *a, const struct mock_dialect *d)
{
    if (d->has_refusal) {
        a->refusal = "I cannot help with that.";
    } else {
        say(a, declined, COUNT(declined));
        a->finish = MOCK_FILTER;
    }
}

static void fill(struct mock_made *m, const struct mock_dialect *d, const struct mock_wish *w,
                 const struct mock_script *s, uint64_t number)
{
    struct mock_answer *a = &m->a;
    bool calls_all = mock_script_has(s, MOCK_SCRIPT_TOOLS);
    if (mock_script_has(s, MOCK_SCRIPT_REFUSAL)) {
        decline(a, d);
    } else if (mock_script_has(s, MOCK_SCRIPT_HUGE_ANSWER)) {
        say_much(m);
    } else if (w->n_functions > 0 && !w->is_barred && (w->is_forced || calls_all)) {
        call_functions(m, w, calls_all, number);
    } else if (mock_script_has(s, MOCK_SCRIPT_EMPTY)) { /* with `filter`: the prompt was refused */
        a->n_words = 0;
        a->finish = mock_script_has(s, MOCK_SCRIPT_FILTER) ? MOCK_FILTER : a->finish;
    } else if (mock_script_has(s, MOCK_SCRIPT_FILTER)) {
        say(a, story, 4);
        a->finish = MOCK_FILTER;
    } else if (w->is_json || w->schema) {
        say_json(m, w);
    } else {
        say(a, story, COUNT(story));
    }
    if (a->finish == MOCK_STOP) {
        limit(a, w->limit);
    }
    if (w->stops && a->n_words > 0) {
        stop(m, w->stops);
    }
}

void mock_answer_make(const struct mock_request *r, const struct mock_dialect *d,
                      const struct mock_wish *w, const struct mock_script *s, uint64_t number,
                      struct mock_made *out)
{
    *out = (struct mock_made){.a = {.provider = r->provider,
                                    .model = r->model,
                                    .is_text = r->is_text,
                                    .stream = w->stream,
                                    .shape = w->shape,
                                    .body = r->body,
                                    .n_top = w->n_top,
                                    .wants_usage = w->wants_usage,
                                    .prompt_tokens = 9}};
    struct mock_answer *a = &out->a;
    (void)snprintf(a->id, sizeof a->id, number ? "scripted%llu" : "scripted",
                   (unsigned long long)number);
    fill(out, d, w, s, number);
    if (w->reasons || mock_script_has(s, MOCK_SCRIPT_REASONING)) {
        memcpy(a->reasoning, thoughts, sizeof thoughts);
        a->n_reasoning = COUNT(thoughts);
    }
    unsigned n = w->n > 0 ? w->n : 1;
    n = mock_script_has(s, MOCK_SCRIPT_ONE_CHOICE) ? 1 : n;
    n *= w->n_prompts > 1 ? w->n_prompts : 1;
    a->n_choices = n > MOCK_CHOICES_MAX ? MOCK_CHOICES_MAX : n;
    if (mock_script_has(s, MOCK_SCRIPT_LOGPROBS_MISSING)) {
        a->n_top = -1;
    }
    a->n_top = a->n_top > MOCK_TOP_MAX ? MOCK_TOP_MAX : a->n_top;
    if (w->echo && a->n_words < MOCK_WORDS_MAX) {
        memmove(a->word + 1, a->word, a->n_words * sizeof *a->word);
        a->word[0] = w->echo;
        a->n_words++;
    }
    a->has_usage = !mock_script_has(s, MOCK_SCRIPT_NO_USAGE);
    a->reasoning_tokens = (int)a->n_reasoning;
    a->completion_tokens = (int)((a->n_words + a->n_reasoning + 5 * a->n_calls) * a->n_choices);
}

void mock_answer_release(struct mock_made *m)
{
    for (size_t i = 0; i < m->n_texts; i++) {
        free(m->text[i]);
    }
    m->n_texts = 0;
}

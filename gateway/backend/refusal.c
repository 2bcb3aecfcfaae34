/* refusal.c - providers agree on nothing here. The order in which fields are looked for is that of
 * the shapes met in the wild, most specific first; a text is cleaned once, when it is read, so no
 * later stage has to think of it.
 */
#include "refusal.h"

#include "backend.h"
#include "refusal_codes.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/key_marks.h"
#include "gateway/base/retry_after.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- plain text */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '*';
}

/* Bytes of the UTF-8 character at p, 0 when it is invalid or cut. */
static size_t utf8_char(const unsigned char *p, size_t n)
{
    /* lead bytes, and what the second byte may be (no overlong forms, no surrogates, nothing above
     * U+10FFFF) */
    static const struct {
        unsigned char from, to, low, high;
        size_t len;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        size_t len = forms[k].len;
        if (p[0] < forms[k].from || p[0] > forms[k].to || len > n) {
            continue;
        }
        bool ok = len == 1 || (p[1] >= forms[k].low && p[1] <= forms[k].high);
        for (size_t i = 2; i < len; i++) {
            ok = ok && (p[i] & 0xc0) == 0x80;
        }
        return ok ? len : 0;
    }
    return 0;
}

/* The length of the tag at p ("<p class=x>", "</p>", "<!-- -->", a script with its text), or 0. "a
 * < b" is no tag. */
static size_t tag_length(const char *p, size_t n)
{
    if (n < 2 || p[0] != '<' || !(isalpha((unsigned char)p[1]) || p[1] == '/' || p[1] == '!')) {
        return 0;
    }
    static const char *const opaque[] = {"script", "style"};
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(opaque[i]);
        if (n > len + 1 && strncasecmp(p + 1, opaque[i], len) == 0) {
            for (size_t at = len; at + len + 2 <= n; at++) {
                if (p[at] == '<' && p[at + 1] == '/' &&
                    strncasecmp(p + at + 2, opaque[i], len) == 0) {
                    return at;
                }
            }
            return n;
        }
    }
    const char *end = memchr(p, '>', n);
    return end ? (size_t)(end - p) + 1 : n;
}

/* "api.example.com": at least two labels, the last one a top-level domain that providers and
 * networks use; or an IPv4 address. */
static bool is_host(const char *p, size_t n)
{
    while (n > 0 && p[n - 1] == '.') {
        n--;
    }
    size_t dots = 0, digits = 0;
    const char *last = p;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '.') {
            dots++;
            last = p + i + 1;
        }
        digits += isdigit((unsigned char)p[i]) != 0;
    }
    if (dots == 3 && digits + dots == n) {
        return true;
    }
    static const char *const tops[] = {"com",      "net",   "org",        "ai", "io",
                                       "dev",      "cloud", "app",        "cn", "eu",
                                       "internal", "local", "localdomain"};
    for (size_t i = 0; dots > 0 && i < sizeof tops / sizeof *tops; i++) {
        size_t len = strlen(tops[i]);
        if ((size_t)(p + n - last) == len && strncasecmp(last, tops[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_key(const char *p, size_t n, bool after_bearer)
{
    static const char *const marks[] = {"fw_", "r8_", "hf_", "tgp_", "key-"};
    bool is_marked = n >= 8 && key_marks_begin(p);
    for (size_t i = 0; n >= 8 && i < sizeof marks / sizeof *marks; i++) {
        is_marked = is_marked || strncmp(p, marks[i], strlen(marks[i])) == 0;
    }
    bool has_digit = false, has_alpha = false;
    for (size_t i = 0; i < n; i++) {
        has_digit = has_digit || isdigit((unsigned char)p[i]);
        has_alpha = has_alpha || isalpha((unsigned char)p[i]);
    }
    return is_marked || (after_bearer && n >= 6) || (n >= 40 && has_digit && has_alpha);
}

struct plain {
    char *out;
    size_t len, cap;
    bool is_full, after_bearer;
};

static void put(struct plain *t, const char *p, size_t n)
{
    if (t->is_full || t->len + n >= t->cap) {
        t->is_full = true; /* never a shorter piece after a longer one was refused */
        return;
    }
    memcpy(t->out + t->len, p, n);
    t->len += n;
}

/* A blank of any kind or length becomes one space; none at the start. */
static void put_blank(struct plain *t)
{
    if (t->len > 0 && t->out[t->len - 1] != ' ') {
        put(t, " ", 1);
    }
}

static size_t address_length(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && !isspace((unsigned char)p[i]) && !strchr("\"'`<>()[]{},", p[i])) {
        i++;
    }
    return i;
}

/* One run of word characters, or an address that begins with it. Returns the bytes that were read.
 */
static size_t take_word(struct plain *t, const char *p, size_t n)
{
    size_t len = 0;
    while (len < n && is_word_char(p[len])) {
        len++;
    }
    bool is_url = len + 3 <= n && memcmp(p + len, "://", 3) == 0;
    if (is_url || is_host(p, len)) {
        put(t, "[address]", 9);
        t->after_bearer = false;
        return address_length(p, n);
    }
    if (is_key(p, len, t->after_bearer)) {
        put(t, "[key]", 5);
        t->after_bearer = false;
        return len;
    }
    size_t at = 0;
    while (at < len && !t->is_full) { /* a long word is cut, not lost */
        put(t, p + at++, 1);
    }
    t->after_bearer = len == 6 && strncasecmp(p, "bearer", 6) == 0;
    return len;
}

void refusal_clean(struct slice text, char *out, size_t cap)
{
    struct plain t = {.out = out, .cap = cap};
    size_t i = 0;
    while (i < text.len && !t.is_full) {
        const char *p = text.p + i;
        size_t rest = text.len - i, n = tag_length(p, rest);
        if (n > 0 || isspace((unsigned char)*p)) {
            put_blank(&t);
            i += n > 0 ? n : 1;
        } else if (is_word_char(*p)) {
            i += take_word(&t, p, rest);
        } else {
            n = utf8_char((const unsigned char *)p, rest);
            bool is_control = (unsigned char)*p < 0x20 || *p == 0x7f;
            put(&t, n == 0 || is_control ? "?" : p, n == 0 ? 1 : n);
            i += n == 0 ? 1 : n;
        }
    }
    while (t.len > 0 && t.out[t.len - 1] == ' ') {
        t.len--;
    }
    t.out[t.len] = '\0';
}

/* ---- which parameter */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_.[]-", c));
}

/* Copies a name in snake case: presencePenalty becomes presence_penalty. false: none, or too long.
 */
static bool copy_name(const char *p, char name[64])
{
    size_t n = 0;
    const char *start = p;
    for (; is_name_char(*p) && n + 2 < 64; p++) {
        if (isupper((unsigned char)*p) && p > start && islower((unsigned char)p[-1])) {
            name[n++] = '_';
        }
        name[n++] = (char)tolower((unsigned char)*p);
    }
    while (n > 0 && name[n - 1] == '.') {
        n--;
    }
    name[n] = '\0';
    return n > 0 && !is_name_char(*p) && !isdigit((unsigned char)*start);
}

/* Reads `'name'`, "`name`" or a bare name at p into param; body.top_k is top_k. */
static bool read_name(const char *p, bool needs_quote, char param[64])
{
    bool is_quoted = *p == '\'' || *p == '`' || *p == '"';
    char name[64] = "";
    p += is_quoted;
    p += strncmp(p, "body.", 5) == 0 ? 5 : 0;
    if ((needs_quote && !is_quoted) || !copy_name(p, name)) {
        return false;
    }
    memcpy(param, name, sizeof name);
    return true;
}

/* "`temperature` and `top_p` cannot both be specified": the second one, since the first stays. */
static bool quoted_parameter(const char *message, char param[64])
{
    bool want_second = strstr(message, "cannot both be") != NULL;
    char name[64];
    unsigned found = 0;
    for (const char *p = strchr(message, '`'); p; p = strchr(p + 1, '`')) {
        if (read_name(p, true, name) && sampling_find(name) != PARAM_COUNT &&
            ++found == (want_second ? 2u : 1u)) {
            (void)snprintf(param, 64, "%s", name);
            return true;
        }
    }
    return false;
}

/* "seed: Extra inputs are not permitted", "top_k must be -1", "Temperature should be in
 * [0.0, 2.0)"; before it there may stand what kind of error it is. */
static bool leading_parameter(const char *message, char param[64])
{
    static const char *const kinds[] = {"invalid request: ", "InvalidParameter: "};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *at = strstr(message, kinds[i]);
        message = at ? at + strlen(kinds[i]) : message;
    }
    size_t n = isupper((unsigned char)message[0]) != 0;
    n += strspn(message + n, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    bool is_named =
        n > 0 && message[n] == ':' && message[n + 1] == ' ' && !isupper((unsigned char)message[0]);
    bool is_told =
        strncmp(message + n, " must ", 6) == 0 || strncmp(message + n, " should ", 8) == 0;
    char name[64];
    if (n == 0 || !read_name(message, false, name)) {
        return false;
    }
    if (is_named || (is_told && sampling_find(name) != PARAM_COUNT)) {
        (void)snprintf(param, 64, "%s", name);
        return true;
    }
    return false;
}

/* "cannot specify both frequency_penalty and presence_penalty": the second one, since the first
 * stays. */
static bool paired_parameter(const char *message, char param[64])
{
    const char *at = strstr(message, "cannot specify both ");
    at = at ? strstr(at, " and ") : NULL;
    return at && read_name(at + strlen(" and "), false, param);
}

/* "Value '1.5' at 'inferenceConfig.temperature' failed to satisfy constraint", where a structure
 * may stand around it ("toolConfig.tools.1.member.toolSpec.name"); "extraneous key [logit_bias] is
 * not permitted". */
static bool constrained_parameter(const char *message, char param[64])
{
    static const char inference[] = "inferenceConfig.", tools[] = "toolConfig.";
    const char *at = strstr(message, "' at '"), *key = strstr(message, "extraneous key [");
    if (at && strstr(at, "failed to satisfy constraint")) {
        at += strlen("' at '");
        bool is_inference = strncmp(at, inference, sizeof inference - 1) == 0;
        at += is_inference ? sizeof inference - 1 : 0;
        at += strncmp(at, tools, sizeof tools - 1) == 0 ? sizeof tools - 1 : 0;
        size_t n = strcspn(at, ".'");
        char name[64];
        if (n >= sizeof name) {
            return false;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)n, at);
        return read_name(name, false, param);
    }
    if (key) {
        key += strlen("extraneous key [");
        char name[64];
        size_t n = strcspn(key, "]");
        if (n < sizeof name) {
            (void)snprintf(name, sizeof name, "%.*s", (int)n, key);
            return read_name(name, false, param);
        }
    }
    return false;
}

/* "invalid temperature: only 1 is allowed for this model" */
static bool invalid_parameter(const char *message, char param[64])
{
    char name[64];
    const char *at = strstr(message, "invalid ");
    at = at ? at + strlen("invalid ") : NULL;
    if (!at || !read_name(at, false, name) || sampling_find(name) == PARAM_COUNT) {
        return false;
    }
    (void)snprintf(param, 64, "%s", name);
    return true;
}

/* The parameter that an error text names: "Unknown parameter: 'top_k'" ... "": none that can be
 * told. */
static void param_of_text(const char *message, char param[64])
{
    static const struct {
        const char *words;
        bool needs_quote;
    } before[] = {
        {"Unsupported parameter: ", false},
        {"Unsupported value: ", true},
        {"Unknown parameter: ", false},
        {"Unrecognized request argument supplied: ", false},
        {"Unrecognized request arguments supplied: ", false},
        {"Argument not supported on this model: ", false},
        {"property ", true},
        {"field: ", true},
        {"Unknown field: ", false},
        {"Unknown name ", true},
        {"Field ", true},
        {"option ", true},
        {"unknown field ", true},
        {"unknown field: parameter ", true},
        {"body -> ", false},
    };
    static const char *const whole[][2] = {
        {"not allowed to request logprobs", "logprobs"},
        {"Logprobs is not ", "logprobs"},
        {"Only one candidate can be specified", "n"},
        {"Multiple candidates is not ", "n"},
        {"number of stop_sequences must not exceed", "stop"},
        {"JSON mode is not enabled", "response_format"},
        {"Function calling is not enabled", "tools"},
        {"Thinking level is not supported", "reasoning_effort"},
    };
    param[0] = '\0';
    if (constrained_parameter(message, param)) {
        return;
    }
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *at = strstr(message, before[i].words);
        if (at && read_name(at + strlen(before[i].words), before[i].needs_quote, param)) {
            return;
        }
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strstr(message, whole[i][0])) {
            (void)snprintf(param, 64, "%s", whole[i][1]);
            return;
        }
    }
    if (!paired_parameter(message, param) && !leading_parameter(message, param) &&
        !invalid_parameter(message, param)) {
        (void)quoted_parameter(message, param);
    }
}

/* ---- bodies */

/* A stable word, or nothing: "Client specified an invalid argument" is a sentence. */
static void copy_word(const json_t *v, char *out, size_t cap)
{
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    out[0] = '\0';
    if (!s || n == 0 || n >= cap) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && !strchr("_.-", s[i])) {
            return;
        }
    }
    memcpy(out, s, n + 1);
}

static int status_of(const json_t *v)
{
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;
    if (json_is_string(v)) {
        n = strtol(json_string_value(v), NULL, 10);
    }
    return n >= 400 && n <= 599 ? (int)n : 0;
}

/* [{"loc":["body","seed"],"msg":"Extra inputs are not permitted"}]: the first entry counts. */
static bool read_detail(const json_t *detail, struct refusal *r)
{
    if (json_is_string(detail)) {
        refusal_clean((struct slice){json_string_value(detail), json_string_length(detail)},
                      r->message, sizeof r->message);
        return true;
    }
    const json_t *first = json_array_get(detail, 0), *loc = json_object_get(first, "loc"), *part;
    if (!json_is_object(first)) {
        return false;
    }
    size_t i;
    json_array_foreach ((json_t *)loc, i, part) { /* the macro wants no const */
        if (json_is_string(part) && strcmp(json_string_value(part), "body") != 0 && !r->param[0]) {
            copy_word(part, r->param, sizeof r->param);
        }
    }
    char text[REFUSAL_TEXT_MAX];
    const json_t *msg = json_object_get(first, "msg");
    refusal_clean((struct slice){json_string_value(msg), json_string_length(msg)}, text,
                  sizeof text);
    (void)snprintf(r->message, sizeof r->message, "%s%s%.*s", r->param, r->param[0] ? ": " : "",
                   REFUSAL_TEXT_MAX - 80, text);
    return true;
}

static bool read_message(const json_t *message, struct refusal *r)
{
    return read_detail(json_is_object(message) ? json_object_get(message, "detail") : message, r);
}

/* "RESOURCE_EXHAUSTED", "INTERNAL": the name of a gRPC status. */
static bool is_status_word(const json_t *v)
{
    const char *s = json_string_value(v);
    size_t n = s ? strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0;
    return n > 1 && s[n] == '\0';
}

/* [{"@type":"..RetryInfo","retryDelay":"12s"}]: the header is left out there. */
static void read_retry(const json_t *details, struct refusal *r)
{
    size_t i;
    json_t *one;
    json_array_foreach ((json_t *)details, i, one) { /* the macro wants no const */
        const json_t *delay = json_object_get(one, "retryDelay");
        size_t n = json_string_length(delay);
        if (n > 1 && n < sizeof r->retry && json_string_value(delay)[n - 1] == 's') {
            memcpy(r->retry, json_string_value(delay), n - 1);
            r->retry[n - 1] = '\0';
        }
    }
}

/* What the provider's own words stand for. A code that only repeats the status says nothing. */
static void translate_codes(const json_t *o, struct refusal *r)
{
    const char *word = json_string_value(json_object_get(o, "code"));
    bool is_number = word && word[0] && strspn(word, "0123456789") == strlen(word);
    const struct refusal_code *known = is_number && r->type[0] ? NULL : refusal_code_find(word);
    known = known ? known : refusal_code_find(r->type);
    if (status_of(json_object_get(o, "code"))) {
        r->code[0] = '\0';
    }
    if (known) {
        r->status = r->status ? r->status : known->status;
    }
    if (known && known->code[0]) {
        (void)snprintf(r->code, sizeof r->code, "%s", known->code);
    }
}

/* The fields beside a message, in an `error` object or at the top. */
static void read_fields(const json_t *o, struct refusal *r)
{
    static const char *const statuses[] = {"code", "status", "http_code", "http_status_code"};
    for (size_t i = 0; !r->status && i < sizeof statuses / sizeof *statuses; i++) {
        r->status = status_of(json_object_get(o, statuses[i]));
    }
    copy_word(json_object_get(o, "code"), r->code, sizeof r->code);
    copy_word(json_object_get(o, "type"), r->type, sizeof r->type);
    translate_codes(o, r);
    if (!r->code[0] && r->status != 429 && is_status_word(json_object_get(o, "status"))) {
        copy_word(json_object_get(o, "status"), r->code, sizeof r->code);
    }
    const char *param = json_string_value(json_object_get(o, "param"));
    if (!r->param[0] && param && strcmp(param, "validation_error") != 0) {
        (void)read_name(param, false, r->param);
    }
}

/* {"base_resp":{"status_code":1002,"status_msg":"rate limit"}} beside an answer without choices,
 * with HTTP 200. */
static bool read_base_resp(const json_t *o, struct refusal *r)
{
    static const struct {
        json_int_t code;
        int status;
    } map[] = {{1002, 429}, {1004, 401}, {1008, 402}, {1026, 400},
               {1027, 400}, {1039, 400}, {2013, 400}};
    const json_t *code = json_object_get(o, "status_code");
    if (!json_is_integer(code) || json_integer_value(code) == 0) {
        return false;
    }
    r->status = 502;
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        r->status = map[i].code == json_integer_value(code) ? map[i].status : r->status;
    }
    return read_detail(json_object_get(o, "status_msg"), r);
}

/* Asked of every event of a stream: so in one walk. */
static bool read_shape(const json_t *body, struct refusal *r)
{
    enum { ERROR, BASE, CHOICES, TYPE, MESSAGE, CAPITAL_MESSAGE, DETAIL, STATUS, TITLE, COUNT };
    static const char *const names[COUNT] = {"error",   "base_resp", "choices", "type", "message",
                                             "Message", "detail",    "status",  "title"};
    const json_t *v[COUNT];
    backend_members(body, COUNT, names, v);
    if (json_is_object(v[ERROR]) && json_object_size(v[ERROR]) > 0) {
        (void)read_message(json_object_get(v[ERROR], "message"), r);
        read_fields(v[ERROR], r);
        read_retry(json_object_get(v[ERROR], "details"), r);
        r->status = r->status ? r->status : status_of(json_object_get(body, "status_code"));
        return true;
    }
    if (json_is_string(v[ERROR]) && json_string_length(v[ERROR]) > 0) {
        read_fields(body, r);
        copy_word(json_object_get(body, "error_type"), r->type, sizeof r->type);
        return read_detail(v[ERROR], r);
    }
    if (read_base_resp(v[BASE], r)) {
        return true;
    }
    const char *type = json_string_value(v[TYPE]);
    bool is_answer = json_is_array(v[CHOICES]) || (type && strncmp(type, "message", 7) == 0);
    if (is_answer) {
        return false;
    }
    if (read_message(v[MESSAGE], r) || read_detail(v[CAPITAL_MESSAGE], r) ||
        read_detail(v[DETAIL], r) || (status_of(v[STATUS]) && read_detail(v[TITLE], r))) {
        read_fields(body, r);
        return true;
    }
    return false;
}

bool refusal_read(const json_t *body, struct refusal *out)
{
    struct refusal r = {.status = 0};
    if (!json_is_object(body) || !read_shape(body, &r)) {
        return false;
    }
    if (!r.message[0]) {
        (void)snprintf(r.message, sizeof r.message, "the backend gave no reason");
    }
    if (!r.param[0]) {
        param_of_text(r.message, r.param);
    }
    *out = r;
    return true;
}

/* ---- to the client */

static bool says(const char *message, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasestr(message, words[i])) {
            return true;
        }
    }
    return false;
}

bool refusal_is_of_parameter(const char *code, const char *message)
{
    static const char *const codes[] = {"unsupported_parameter", "unknown_parameter"};
    static const char *const words[] = {"unsupported parameter",
                                        "unknown parameter",
                                        "unrecognized request argument",
                                        "argument not supported",
                                        "extra inputs are not permitted",
                                        "extraneous key",
                                        "unknown field",
                                        "cannot find field",
                                        "is not supported with this model",
                                        "is not supported by this model",
                                        "is not supported for this model",
                                        "is not enabled for",
                                        "is unsupported",
                                        "is not allowed for this model"};
    static const char *const about_values[] = {"value",   "maximum",   "minimum",     "range",
                                               "between", "less than", "greater than"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return says(message, words, sizeof words / sizeof *words) &&
           !says(message, about_values, sizeof about_values / sizeof *about_values);
}

static void name_known_faults(struct refusal *r)
{
    static const char *const too_long[] = {
        "maximum context length", "prompt is too long", "input is too long",
        "exceeds the available context size", "exceeds the maximum number of tokens"};
    static const char *const bad_key[] = {"incorrect api key", "invalid api key", "wrong api key",
                                          "api key is invalid", "api key not valid"};
    if (says(r->message, too_long, sizeof too_long / sizeof *too_long)) {
        (void)snprintf(r->code, sizeof r->code, "context_length_exceeded");
        (void)snprintf(r->param, sizeof r->param, "messages");
    }
    if (says(r->message, bad_key, sizeof bad_key / sizeof *bad_key)) {
        (void)snprintf(r->code, sizeof r->code, "invalid_api_key");
    }
}

/* A body that is no error of an API. */
static void say_unread(int status, struct slice body, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "the backend answered with status %d: ", status);
    refusal_clean(body, out + n, cap - n < 200 ? cap - n : 200);
    if (status >= 300 && status < 400) {
        (void)snprintf(out, cap,
                       "the backend answered with status %d, which sends elsewhere and is not "
                       "followed: check the provider's base_url",
                       status);
    } else if (!out[n]) {
        (void)snprintf(out, cap, "the backend answered with status %d and no text", status);
    }
}

void refusal_answer(int status, struct slice body, const char *retry_after, char param[64],
                    struct failure *f)
{
    struct refusal r = {.status = 0};
    json_t *json = body.len > 0 ? jsonio_parse(body.p, body.len, NULL) : NULL;
    /* a stream that was to be an array is refused by an array of one */
    const json_t *first = json_is_array(json) ? json_array_get(json, 0) : json;
    if (!refusal_read(first, &r)) {
        say_unread(status, body, r.message, sizeof r.message);
    }
    json_decref(json);
    name_known_faults(&r);
    if ((status == 400 || status == 403) && strcmp(r.code, "insufficient_quota") == 0) {
        status = 402; /* the account, neither the request nor the key */
    }
    bool is_about_request = status == 400 || status == 403 || status == 413 || status == 422;
    const char *named = is_about_request ? r.param : "";
    (void)snprintf(param, 64, "%s", named);
    bool is_in_body = r.retry[0] && retry_after_ms(retry_after, -1) < 0;
    backend_refusal_status(status, r.message, r.code, named, is_in_body ? r.retry : retry_after, f);
}

bool refusal_inside(const struct refusal *r, bool is_stream, bool has_content, struct failure *f)
{
    if (is_stream && (has_content || !r->status)) {
        return failure_set(f, 502, "stream_incomplete", NULL,
                           "the backend broke off its stream: %.440s", r->message);
    }
    struct refusal known = *r;
    name_known_faults(&known);
    backend_refusal_status(r->status ? r->status : 502, known.message, known.code, known.param,
                           known.retry[0] ? known.retry : NULL, f);
    return false;
}

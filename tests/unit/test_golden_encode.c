/* test_golden_encode.c - tests/golden/encode/<dialect>/<case>: a call -> the bytes that leave, its
 * headers and its adjustments.
 *
 * in.json: {provider:{auth, auth_header, chat_endpoint, headers}, claims:{name:{support,
 * is_integer, wire, endpoint}}, model, key, stream, messages | prompt, send:{canonical name:
 * value}, wire:{canonical name: path, where it differs}, extra:{path: value}, stop:{sent,
 * no_blank}} want.json: {body, headers, adjustments} or {error:{status, code, param, message}}
 */
#include "golden.h"

#include "gateway/backend/backend.h"
#include "gateway/base/jsonio.h"

struct setup {
    json_t *in;
    struct provider provider;
    struct rules rules;
    struct claim claims[PARAM_COUNT + BEHAVIOUR_COUNT];
    size_t n_claims;
    struct plan plan;
    struct call call;
};

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static enum claim_support support_of(const char *word)
{
    static const char *const words[] = {[CLAIM_YES] = "yes",
                                        [CLAIM_REJECTED] = "rejected",
                                        [CLAIM_IGNORED] = "ignored",
                                        [CLAIM_ABSENT] = "absent"};
    for (int i = 0; i < 4; i++) {
        if (word && strcmp(words[i], word) == 0) {
            return (enum claim_support)i;
        }
    }
    fail_msg("support '%s'", word ? word : "");
    return CLAIM_ABSENT;
}

static enum behaviour behaviour_of(const char *name)
{
    static const char *const names[BEHAVIOUR_COUNT] = {
        "system_role",   "developer_role", "prefill",      "message_name",   "images",
        "unknown_field", "stream",         "stream_usage", "call_signature", "endpoint"};
    for (unsigned i = 0; i < BEHAVIOUR_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            return (enum behaviour)i;
        }
    }
    return BEHAVIOUR_COUNT;
}

static void set_claims(struct setup *s)
{
    const char *name;
    json_t *o;
    json_object_foreach (json_object_get(s->in, "claims"), name, o) {
        struct claim *c = &s->claims[s->n_claims++];
        c->id = (int64_t)s->n_claims;
        c->param = name;
        c->support = support_of(text(o, "support"));
        c->is_integer = json_is_true(json_object_get(o, "is_integer"));
        c->wire = text(o, "wire");
        c->endpoint = text(o, "endpoint");
        if (behaviour_of(name) != BEHAVIOUR_COUNT) {
            s->rules.behaviour[behaviour_of(name)] = c;
        } else {
            assert_int_not_equal(sampling_find(name), PARAM_COUNT);
            s->rules.param[sampling_find(name)] = c;
        }
    }
}

static struct value value_of(enum param p, const json_t *v)
{
    struct value x = {.type = sampling_table[p].type};
    switch (x.type) {
    case VALUE_BOOL:
        x.b = json_is_true(v);
        break;
    case VALUE_INT:
        x.i = json_integer_value(v);
        break;
    case VALUE_NUMBER:
        x.d = json_number_value(v);
        break;
    case VALUE_STRING:
        x.s = json_string_value(v);
        break;
    default:
        x.j = v;
    }
    return x;
}

static void set_plan(struct setup *s)
{
    const char *name;
    json_t *v;
    json_object_foreach (json_object_get(s->in, "send"), name, v) {
        enum param p = sampling_find(name);
        assert_int_not_equal(p, PARAM_COUNT);
        const char *wire = text(json_object_get(s->in, "wire"), name);
        sampling_set(&s->plan.send, p, value_of(p, v));
        s->plan.wire[p] = wire ? wire : sampling_table[p].name;
    }
    json_object_foreach (json_object_get(s->in, "extra"), name, v) {
        s->plan.extra[s->plan.n_extra++] = (struct plan_extra){name, v, 1};
    }
    const json_t *stop = json_object_get(s->in, "stop"), *sent = json_object_get(stop, "sent");
    s->plan.stop_sent = sent ? (size_t)json_integer_value(sent) : 1000;
    s->plan.stop_no_blank = json_is_true(json_object_get(stop, "no_blank"));
}

static void set_quirks(struct setup *s, const json_t *o)
{
    struct provider_quirks *q = &s->provider.quirks;
    q->tool_id_len = json_integer_value(json_object_get(o, "tool_id_len"));
    q->tool_id_len_max = json_integer_value(json_object_get(o, "tool_id_len_max"));
    q->has_one_system = json_is_true(json_object_get(o, "one_system"));
    q->has_turn_after_tool = json_is_true(json_object_get(o, "turn_after_tool"));
    q->has_strict_messages = json_is_true(json_object_get(o, "strict_messages"));
    q->has_call_ids = json_is_true(json_object_get(o, "call_ids"));
    q->has_untyped_links = json_is_true(json_object_get(o, "untyped_links"));
    q->reasoning_key = text(o, "reasoning_key");
}

static void set_up(struct setup *s, const char *folder, const char *dialect)
{
    memset(s, 0, sizeof *s);
    s->in = golden_load(folder, "in.json");
    assert_non_null(s->in);
    const json_t *p = json_object_get(s->in, "provider");
    const char *auth = text(p, "auth");
    s->provider = (struct provider){.id = "acme",
                                    .dialect = dialect,
                                    .auth_header = text(p, "auth_header"),
                                    .headers = json_object_get(p, "headers")};
    s->provider.auth = !auth                         ? CATALOG_AUTH_NONE
                       : strcmp(auth, "bearer") == 0 ? CATALOG_AUTH_BEARER
                       : strcmp(auth, "sigv4") == 0  ? CATALOG_AUTH_SIGV4
                                                     : CATALOG_AUTH_HEADER;
    set_quirks(s, json_object_get(p, "quirks"));
    s->rules.provider = &s->provider;
    set_claims(s);
    set_plan(s);
    s->call = (struct call){.provider = &s->provider,
                            .rules = &s->rules,
                            .model = text(s->in, "model"),
                            .messages = json_object_get(s->in, "messages"),
                            .prompt = json_object_get(s->in, "prompt"),
                            .send = &s->plan.send,
                            .plan = &s->plan,
                            .stream = json_is_true(json_object_get(s->in, "stream")),
                            .key = text(s->in, "key")};
}

static json_t *headers_json(const struct headers *h)
{
    json_t *o = json_object();
    for (size_t i = 0; i < h->n; i++) {
        assert_null(json_object_get(o, h->h[i].name));
        json_object_set_new(o, h->h[i].name,
                            json_string(h->h[i].is_secret ? "***" : h->h[i].value));
    }
    return o;
}

static json_t *adjustments_json(const struct plan *plan)
{
    json_t *list = json_array();
    for (size_t i = 0; i < plan->n_adj; i++) {
        const struct adjustment *a = &plan->adj[i];
        assert_int_equal(a->param, PARAM_COUNT);
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s,s:o,s:o,s:I}", "name", a->name, "action",
                                        action_name(a->action), "reason", reason_name(a->reason),
                                        "asked", plan_asked_json(a), "sent",
                                        plan_sent_json(plan, a), "claim", (json_int_t)a->claim));
    }
    return list;
}

static json_t *encode(struct setup *s, const struct backend *b)
{
    struct buf body;
    struct headers headers = {.n = 0};
    struct failure f = {.status = 0};
    buf_init(&body, 1 << 20);
    json_t *got;
    if (b->encode(&s->call, &body, &headers, &f)) {
        const char *bad = NULL;
        json_t *parsed = jsonio_parse(body.p, body.len, NULL);
        assert_non_null(parsed);
        if (!backend_check_sent(&s->call, buf_slice(&body), &bad)) {
            fail_msg("'%s' is not what was to be sent: %s", bad, body.p);
        }
        got = json_pack("{s:o,s:o,s:o}", "body", parsed, "headers", headers_json(&headers),
                        "adjustments", adjustments_json(&s->plan));
    } else {
        assert_int_not_equal(f.status, 0);
        got = json_pack("{s:{s:i,s:s,s:s,s:s}}", "error", "status", f.status, "code", f.code,
                        "param", f.param, "message", f.message);
    }
    buf_release(&body);
    headers_release(&headers);
    return got;
}

static void run_case(const char *folder, const char *dialect, const char *name)
{
    (void)name;
    struct setup s;
    set_up(&s, folder, dialect);
    const struct backend *b = backend_find(dialect);
    assert_non_null(b);
    json_t *got = encode(&s, b);
    golden_check(folder, got);
    json_decref(got);
    json_decref(s.in);
}

static void test_all(void **state)
{
    (void)state;
    assert_true(golden_each("encode", run_case) >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("golden_encode", tests, NULL, NULL);
}

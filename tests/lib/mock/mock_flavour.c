/* mock_flavour.c - one row a provider; the twelve shapes of an error. */
#include "mock_flavour.h"
#include <stdio.h>
#include <string.h>

#define NULLS    (FLAVOUR_NULL_LOGPROBS | FLAVOUR_NULL_FINISH)
#define OFFICIAL (NULLS | FLAVOUR_NULL_USAGE | FLAVOUR_REFUSAL)

/* The first stands for everybody who is not named. */
static const struct flavour table[] = {
    {"openai", "chatcmpl-", NULL, "fp_0123456789", "stop", USAGE_EXTRA, ERROR_OPENAI, 400,
     OFFICIAL | FLAVOUR_TIER},
    {"scripted", "chatcmpl-", NULL, "fp_scripted", "stop", USAGE_EXTRA, ERROR_OPENAI, 400,
     OFFICIAL},
    {"azure", "chatcmpl-", NULL, NULL, "stop", USAGE_EXTRA, ERROR_OPENAI, 400,
     OFFICIAL | FLAVOUR_FILTERS},
    {"xai", "", "reasoning_content", "fp_0123456789", "stop", USAGE_EXTRA_ALWAYS, ERROR_TWO, 400,
     FLAVOUR_APART},
    {"deepseek", "", "reasoning_content", "fp_0123456789_prod0000_fp8_kvcache", "stop",
     USAGE_ON_FINISH, ERROR_OPENAI, 400,
     NULLS | FLAVOUR_NULL_USAGE | FLAVOUR_NULL_CONTENT | FLAVOUR_EMPTY_LAST},
    {"groq", "chatcmpl-", "reasoning", "fp_0123456789", "stop", USAGE_ON_FINISH, ERROR_PLAIN, 400,
     NULLS | FLAVOUR_GROQ},
    {"cerebras", "chatcmpl-", "reasoning", "fp_0123456789", "stop", USAGE_ON_FINISH, ERROR_FLAT,
     400, FLAVOUR_NULL_FINISH},
    {"together", "o", "reasoning", NULL, "eos", USAGE_ON_FINISH, ERROR_OPENAI, 400,
     NULLS | FLAVOUR_NULL_USAGE | FLAVOUR_ROLE_ALWAYS | FLAVOUR_NO_ROLE_CHUNK | FLAVOUR_LISTS},
    {"fireworks", "", "reasoning_content", NULL, "stop", USAGE_ON_FINISH, ERROR_PLAIN, 400,
     FLAVOUR_NULL_FINISH | FLAVOUR_NULL_USAGE},
    {"openrouter", "gen-1790000000-", "reasoning", NULL, "stop", USAGE_EXTRA_ALWAYS, ERROR_NUMBER,
     400, NULLS | FLAVOUR_ROLE_ALWAYS | FLAVOUR_NATIVE_REASON | FLAVOUR_DONE_ANYHOW},
    {"mistral", "0123456789abcdef", NULL, NULL, "stop", USAGE_ON_FINISH, ERROR_MISTRAL, 422,
     FLAVOUR_NULL_FINISH | FLAVOUR_CALL_WHOLE | FLAVOUR_CHUNKED_CONTENT | FLAVOUR_EMPTY_LAST},
    {"vllm", "chatcmpl-", "reasoning", "vllm-0.13.0-tp2-9f2c41aa", "stop", USAGE_EXTRA,
     ERROR_NUMBER, 400, NULLS | FLAVOUR_LATE_PRINT | FLAVOUR_STOP_REASON | FLAVOUR_DONE_ANYHOW},
    {"sglang", "", "reasoning_content", NULL, "stop", USAGE_EXTRA, ERROR_OBJECT, 400,
     NULLS | FLAVOUR_DONE_ANYHOW},
    {"llama.cpp", "chatcmpl-", "reasoning_content", "b10488-3f545becc", "stop", USAGE_EXTRA,
     ERROR_NUMBER, 400, FLAVOUR_NULL_FINISH},
    {"tgi", "", NULL, "3.3.6-dev0-native", "stop", USAGE_EXTRA, ERROR_TGI, 422,
     OFFICIAL | FLAVOUR_ROLE_ALWAYS | FLAVOUR_NO_ROLE_CHUNK | FLAVOUR_NO_BYTES |
         FLAVOUR_KEEPS_STOP},
    {"huggingface-tgi", "", NULL, "3.3.4-native", "stop", USAGE_EXTRA, ERROR_TGI, 422,
     OFFICIAL | FLAVOUR_ROLE_ALWAYS | FLAVOUR_NO_ROLE_CHUNK | FLAVOUR_NO_BYTES |
         FLAVOUR_KEEPS_STOP},
    {"moonshot", "cmpl-", "reasoning_content", "fpv0_00000000", "stop", USAGE_IN_CHOICE,
     ERROR_PLAIN, 400, FLAVOUR_NULL_FINISH},
    {"minimax", "06", NULL, NULL, "stop", USAGE_ON_FINISH, ERROR_TYPED, 400,
     FLAVOUR_TAGS | FLAVOUR_BASE_RESP | FLAVOUR_NO_ROLE_CHUNK},
    {"zhipu-glm", "20261130000000", "reasoning_content", NULL, "stop", USAGE_ON_FINISH,
     ERROR_BUSINESS, 400, FLAVOUR_ROLE_ALWAYS | FLAVOUR_NO_ROLE_CHUNK},
    {"nvidia-nim", "chatcmpl-", "reasoning_content", NULL, "stop", USAGE_EXTRA, ERROR_PROBLEM, 422,
     FLAVOUR_NULL_FINISH | FLAVOUR_EMPTY_LAST},
    {"meta-llama", "chatcmpl-", NULL, NULL, "stop", USAGE_EXTRA, ERROR_PROBLEM, 400,
     FLAVOUR_NULL_FINISH},
    {"meta-model-api", "chatcmpl-", NULL, NULL, "stop", USAGE_EXTRA, ERROR_OPENAI, 400,
     FLAVOUR_NULL_FINISH},
    {"ai21", "chat-", NULL, NULL, "stop", USAGE_ON_FINISH, ERROR_DETAIL, 422,
     NULLS | FLAVOUR_EMPTY_LAST},
    {"tabbyapi", "cmpl-", NULL, NULL, "stop", USAGE_EXTRA, ERROR_DETAIL, 422, FLAVOUR_NULL_FINISH},
    {"koboldcpp", "chatcmpl-", NULL, NULL, "stop", USAGE_EXTRA, ERROR_OPENAI, 400,
     FLAVOUR_NULL_FINISH},
    {"lmstudio", "chatcmpl-", NULL, NULL, "stop", USAGE_EXTRA, ERROR_OPENAI, 400, NULLS},
    {"ollama", "chatcmpl-", "reasoning", "fp_ollama", "stop", USAGE_EXTRA, ERROR_OPENAI, 400,
     FLAVOUR_NULL_FINISH | FLAVOUR_ROLE_ALWAYS | FLAVOUR_NO_ROLE_CHUNK},
    {"alibaba-dashscope", "chatcmpl-", "reasoning_content", NULL, "stop", USAGE_EXTRA, ERROR_OPENAI,
     400, NULLS | FLAVOUR_NULL_USAGE | FLAVOUR_EMPTY_LAST},
};

const struct flavour *flavour_of(const struct provider *p)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].provider, p->id) == 0) {
            return &table[i];
        }
    }
    return &table[0];
}

bool flavour_knows(const struct provider *p, const char *field)
{
    static const struct {
        const char *provider, *fields;
    } own[] = {{"mistral", " safe_prompt prompt_mode guardrails metadata prediction "
                           "prompt_cache_key "},
               {"fireworks", " echo_last mirostat_lr perf_metrics_in_response "
                             "prompt_cache_isolation_key prompt_truncate_len raw_output "
                             "return_token_ids safe_tokenization speculation "
                             "max_completion_tokens "},
               {"azure", " data_sources user_security_context "}};
    char word[64];
    (void)snprintf(word, sizeof word, " %s ", field);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(own[i].provider, p->id) == 0) {
            return strstr(own[i].fields, word) != NULL;
        }
    }
    return false;
}

/* ---- errors */

int flavour_status(const struct mock_error *e)
{
    /* Two that may not come together and a bad value in words are judged after validation. */
    bool is_late = e->fault == MOCK_FAULT_CONFLICT || e->fault == MOCK_FAULT_NEEDS ||
                   e->fault == MOCK_FAULT_NO_ADDRESS || e->fault == MOCK_FAULT_BODY;
    return is_late ? 0 : flavour_of(e->provider)->refusal_status;
}

static bool is_refused(const struct mock_error *e)
{
    return e->fault != MOCK_FAULT_STATUS;
}

static bool is_scripted(const struct mock_error *e)
{
    return e->fault == MOCK_FAULT_STATUS && strcmp(e->provider->id, "scripted") == 0;
}

static const char *type_of(const struct mock_error *e)
{
    return is_scripted(e)     ? "scripted_error"
           : e->status == 401 ? "authentication_error"
           : e->status == 429 ? "rate_limit_error"
           : e->status >= 500 ? "server_error"
                              : "invalid_request_error";
}

/* NULL: null. */
static const char *code_of(const struct mock_error *e)
{
    static const char *const codes[] = {
        [MOCK_FAULT_UNKNOWN] = "unknown_parameter",
        [MOCK_FAULT_UNSUPPORTED] = "unsupported_parameter",
        [MOCK_FAULT_VALUE] = "unsupported_value",
        [MOCK_FAULT_ABOVE] = "integer_above_max_value",
        [MOCK_FAULT_BELOW] = "integer_below_min_value",
        [MOCK_FAULT_TYPE] = "invalid_type",
        [MOCK_FAULT_TOO_LONG] = "array_above_max_length",
        [MOCK_FAULT_MISSING] = "missing_required_parameter",
        [MOCK_FAULT_NO_ADDRESS] = "model_not_found",
        [MOCK_FAULT_SCHEMA] = "invalid_type",
    };
    bool is_decimal = strchr(e->value, '.') || strchr(e->limit, '.');
    if (e->fault == MOCK_FAULT_STATUS) {
        return e->status == 429 && !is_scripted(e) ? "rate_limit_exceeded" : NULL;
    }
    if (is_decimal && (e->fault == MOCK_FAULT_ABOVE || e->fault == MOCK_FAULT_BELOW)) {
        return e->fault == MOCK_FAULT_ABOVE ? "decimal_above_max_value" : "decimal_below_min_value";
    }
    bool is_about_none = e->fault == MOCK_FAULT_NO_ADDRESS && !e->param[0];
    return is_about_none ? NULL : codes[e->fault];
}

static void sentence(const struct mock_error *e, char *out, size_t cap)
{
    const char *p = e->param;
    switch (e->fault) {
    case MOCK_FAULT_UNKNOWN:
        (void)snprintf(out, cap, "Unknown parameter: '%s'.", p);
        break;
    case MOCK_FAULT_UNSUPPORTED:
        (void)snprintf(out, cap, "Unsupported parameter: '%s' is not supported with this model.",
                       p);
        break;
    case MOCK_FAULT_VALUE:
        (void)snprintf(out, cap,
                       "Unsupported value: '%s' does not support %s with this model. Supported "
                       "values are: %s.",
                       p, e->value, e->limit);
        break;
    case MOCK_FAULT_ABOVE:
        (void)snprintf(out, cap,
                       "Invalid '%s': above maximum value. Expected a value <= %s, but got %s "
                       "instead.",
                       p, e->limit, e->value);
        break;
    case MOCK_FAULT_BELOW:
        (void)snprintf(out, cap,
                       "Invalid '%s': below minimum value. Expected a value >= %s, but got %s "
                       "instead.",
                       p, e->limit, e->value);
        break;
    case MOCK_FAULT_TYPE:
        (void)snprintf(out, cap, "Invalid type for '%s': expected %s, but got %s instead.", p,
                       e->limit, e->value);
        break;
    case MOCK_FAULT_TOO_LONG:
        (void)snprintf(out, cap, "Invalid '%s': too long. Expected at most %s.", p, e->limit);
        break;
    case MOCK_FAULT_MISSING:
        (void)snprintf(out, cap, "Missing required parameter: '%s'.", p);
        break;
    default:
        (void)snprintf(out, cap, "%s", e->message);
    }
}

static json_t *text_or_null(const char *s)
{
    return s && s[0] ? json_string(s) : json_null();
}

/* One entry of a list of what does not validate, in pydantic's words. */
static json_t *detail(const struct mock_error *e)
{
    const char *type = e->fault == MOCK_FAULT_UNKNOWN       ? "extra_forbidden"
                       : e->fault == MOCK_FAULT_UNSUPPORTED ? "extra_forbidden"
                       : e->fault == MOCK_FAULT_ABOVE       ? "less_than_equal"
                       : e->fault == MOCK_FAULT_BELOW       ? "greater_than_equal"
                       : e->fault == MOCK_FAULT_MISSING     ? "missing"
                       : e->fault == MOCK_FAULT_TOO_LONG    ? "too_long"
                       : e->fault == MOCK_FAULT_VALUE       ? "enum"
                                                            : "value_error";
    char text[400];
    if (e->fault == MOCK_FAULT_UNKNOWN || e->fault == MOCK_FAULT_UNSUPPORTED) {
        (void)snprintf(text, sizeof text, "Extra inputs are not permitted");
    } else if (e->fault == MOCK_FAULT_ABOVE || e->fault == MOCK_FAULT_BELOW) {
        (void)snprintf(text, sizeof text, "Input should be %s than or equal to %s",
                       e->fault == MOCK_FAULT_ABOVE ? "less" : "greater", e->limit);
    } else if (e->fault == MOCK_FAULT_MISSING) {
        (void)snprintf(text, sizeof text, "Field required");
    } else {
        (void)snprintf(text, sizeof text, "%s", e->message);
    }
    json_t *input = json_loads(e->value, JSON_DECODE_ANY, NULL);
    return json_pack("{s:s,s:[s,s],s:s,s:o}", "type", type, "loc", "body", e->param, "msg", text,
                     "input", input ? input : json_null());
}

static json_t *four(const struct mock_error *e, const char *text)
{
    return json_pack("{s:s,s:s,s:o,s:o}", "message", text, "type", type_of(e), "param",
                     text_or_null(e->param), "code", text_or_null(code_of(e)));
}

static json_t *in_error(json_t *inner)
{
    return json_pack("{s:o}", "error", inner);
}

static json_t *plain(const struct mock_error *e, const char *text)
{
    json_t *inner = json_pack("{s:s,s:s}", "message", text, "type", type_of(e));
    if (code_of(e)) {
        (void)json_object_set_new(inner, "code", json_string(code_of(e)));
    }
    return in_error(inner);
}

static json_t *numbered(const struct mock_error *e, const char *text)
{
    return in_error(json_pack("{s:s,s:s,s:o,s:i}", "message", text, "type",
                              e->status >= 500   ? "InternalServerError"
                              : e->status == 404 ? "NotFoundError"
                                                 : "BadRequestError",
                              "param", text_or_null(e->param), "code", e->status));
}

static json_t *of_mistral(const struct mock_error *e, const char *text)
{
    bool is_listed = is_refused(e) && e->status == 422;
    json_t *message = is_listed ? json_pack("{s:[o]}", "detail", detail(e)) : json_string(text);
    return json_pack("{s:s,s:o,s:s,s:n,s:o}", "object", "error", "message", message, "type",
                     e->status == 429 ? "rate_limited" : type_of(e), "param", "code",
                     e->status == 429 ? json_string("1300") : json_null());
}

static json_t *of_tgi(const struct mock_error *e, const char *text)
{
    char said[480];
    bool is_validation = e->status == 422;
    (void)snprintf(said, sizeof said, "%s%s", is_validation ? "Input validation error: " : "",
                   text);
    if (e->in_stream) {
        return in_error(json_pack("{s:s,s:i}", "message", said, "http_status_code", e->status));
    }
    return json_pack("{s:s,s:s}", "error", said, "error_type",
                     is_validation      ? "validation"
                     : e->status == 429 ? "overloaded"
                                        : "generation");
}

static json_t *of_problem(const struct mock_error *e, const char *text)
{
    if (e->status == 429) {
        return json_pack("{s:i,s:s}", "status", 429, "title", "Too Many Requests");
    }
    return json_pack("{s:s,s:i,s:s,s:s}", "title",
                     e->status == 422 ? "Unprocessable Entity" : "Bad Request", "status", e->status,
                     "detail", text, "requestId", e->id);
}

static json_t *flat(const struct mock_error *e, const char *text)
{
    return e->in_stream ? json_pack("{s:o,s:i}", "error", four(e, text), "status_code", e->status)
                        : four(e, text);
}

static json_t *two(const struct mock_error *e, const char *text)
{
    return json_pack("{s:s,s:s}", "code",
                     e->status >= 500 ? "The service is currently unavailable"
                                      : "Client specified an invalid argument",
                     "error", text);
}

static json_t *detailed(const struct mock_error *e, const char *text)
{
    return is_refused(e) && e->status == 422 ? json_pack("{s:[o]}", "detail", detail(e))
                                             : json_pack("{s:s}", "detail", text);
}

static json_t *object(const struct mock_error *e, const char *text)
{
    json_t *o = numbered(e, text);
    json_t *inner = json_incref(json_object_get(o, "error"));
    json_decref(o);
    (void)json_object_set_new(inner, "object", json_string("error"));
    return e->in_stream ? in_error(inner) : inner;
}

static json_t *typed(const struct mock_error *e, const char *text)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", e->status);
    return json_pack("{s:s,s:{s:s,s:s,s:s},s:s}", "type", "error", "error", "type",
                     e->status == 429   ? "rate_limit_error"
                     : e->status >= 500 ? "api_error"
                                        : "bad_request_error",
                     "message", text, "http_code", number, "request_id", e->id);
}

static json_t *business(const struct mock_error *e, const char *text)
{
    return in_error(json_pack("{s:s,s:s}", "code",
                              e->status == 429   ? "1302"
                              : e->status >= 500 ? "1234"
                                                 : "1210",
                              "message", text));
}

static json_t *official(const struct mock_error *e, const char *text)
{
    return in_error(four(e, text));
}

static json_t *of_shape(const struct mock_error *e, enum flavour_error shape, const char *text)
{
    static json_t *(*const shapes[])(const struct mock_error *, const char *) = {
        [ERROR_OPENAI] = official,    [ERROR_PLAIN] = plain,   [ERROR_NUMBER] = numbered,
        [ERROR_FLAT] = flat,          [ERROR_TWO] = two,       [ERROR_DETAIL] = detailed,
        [ERROR_MISTRAL] = of_mistral, [ERROR_OBJECT] = object, [ERROR_TGI] = of_tgi,
        [ERROR_PROBLEM] = of_problem, [ERROR_TYPED] = typed,   [ERROR_BUSINESS] = business,
    };
    return shapes[shape](e, text);
}

void flavour_error(const struct mock_error *e, struct buf *out)
{
    char text[480];
    sentence(e, text, sizeof text);
    json_t *o = of_shape(e, flavour_of(e->provider)->error, text);
    if (e->in_stream) {
        mock_put_event(out, NULL, o);
        if (flavour_of(e->provider)->flags & FLAVOUR_DONE_ANYHOW) {
            (void)buf_puts(out, "data: [DONE]\n\n");
        }
    } else {
        mock_put(out, o);
    }
}

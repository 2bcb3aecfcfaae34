/* refusal_codes.c - the numbers are GLM's business codes (docs.z.ai, 2026-08), the sentences gRPC's
 * as xAI sends them (also with HTTP 200), the words Moonshot's (platform.moonshot.ai, 2026-08) and
 * DashScope's. */
#include "refusal_codes.h"

#include <stddef.h>
#include <string.h>

static const struct refusal_code codes[] = {
    {"1000", 401, "invalid_api_key"},
    {"1001", 401, "invalid_api_key"},
    {"1002", 401, "invalid_api_key"},
    {"1003", 401, "invalid_api_key"},
    {"1004", 401, "invalid_api_key"},
    {"1113", 429, "insufficient_quota"}, /* no balance: not to be tried again */
    {"1210", 400, ""},
    {"1211", 404, "model_not_found"},
    {"1213", 400, ""},
    {"1214", 400, ""},
    {"1215", 400, ""},
    {"1261", 400, "context_length_exceeded"},
    {"1301", 400, "content_filter"},
    {"1302", 429, "rate_limit_exceeded"},
    {"1303", 429, "rate_limit_exceeded"},
    {"1305", 429, "rate_limit_exceeded"},
    {"1308", 429, "insufficient_quota"}, /* used up until a time that the text names */
    {"1312", 503, ""},
    {"Client specified an invalid argument", 400, ""},
    {"Some requested entity was not found", 404, "model_not_found"},
    {"Some resource has been exhausted", 429, "rate_limit_exceeded"},
    {"The service is currently unavailable", 503, ""},
    {"exceeded_current_quota_error", 429, "insufficient_quota"},
    {"rate_limit_reached_error", 429, "rate_limit_exceeded"},
    {"engine_overloaded_error", 503, ""},
    {"Arrearage", 402, "insufficient_quota"}, /* DashScope, with HTTP 400 */
};

const struct refusal_code *refusal_code_find(const char *word)
{
    for (size_t i = 0; word && i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(codes[i].word, word) == 0) {
            return &codes[i];
        }
    }
    return NULL;
}

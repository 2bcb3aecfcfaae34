/* tokenizer_recipe.h - tokenizer files made to measure, for the tests of the tokenizer. */
#ifndef ISOTHERM_TESTS_TOKENIZER_RECIPE_H
#define ISOTHERM_TESTS_TOKENIZER_RECIPE_H

#include "local-engine/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SP            "\xe2\x96\x81"
#define BYTES_FOLDER  "local-engine/default-model"
#define SPACES_FOLDER "tests/vectors/stories260k"

/* What a made file holds beside a vocabulary of single bytes or characters; NULL: null, or nothing
 * more. */
struct recipe {
    const char *normalizer, *pre, *post, *decoder, *added, *vocab, *merges, *model, *config;
};

static inline void put_byte_char(FILE *f, unsigned b)
{
    static const unsigned first_rest = 256;
    unsigned cp = b, n = 0;
    if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) {
        for (unsigned i = 0; i < b; i++) {
            n += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
        }
        cp = first_rest + n;
    }
    if (cp == '"' || cp == '\\') {
        fprintf(f, "\\%c", (int)cp);
    } else {
        fprintf(f, cp < 0x80 ? "%c" : "\\u%04x", cp);
    }
}

/* Ids 0 to 255 are the bytes. */
static inline char *make_bytes_json(const struct recipe *r, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    assert_non_null(f);
    fprintf(f,
            "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,"
            "\"decoder\":%s,",
            r->added ? r->added : "", r->normalizer ? r->normalizer : "null",
            r->pre ? r->pre : "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
            r->post ? r->post : "null", r->decoder ? r->decoder : "{\"type\":\"ByteLevel\"}");
    fprintf(f, "\"model\":{\"type\":\"BPE\",%s\"merges\":[%s],\"vocab\":{",
            r->model ? r->model : "", r->merges ? r->merges : "");
    for (unsigned b = 0; b < 256; b++) {
        fputs(b ? ",\"" : "\"", f);
        put_byte_char(f, b);
        fprintf(f, "\":%u", b);
    }
    fprintf(f, "%s%s}}}", r->vocab ? "," : "", r->vocab ? r->vocab : "");
    fclose(f);
    return text;
}

/* Vocabulary and everything else as given. */
static inline char *make_spaces_json(const struct recipe *r, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    assert_non_null(f);
    fprintf(f, "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,",
            r->added ? r->added : "", r->normalizer ? r->normalizer : "null",
            r->pre ? r->pre : "null", r->decoder ? r->decoder : "null");
    fprintf(f, "\"model\":{\"type\":\"BPE\",%s\"merges\":[%s],\"vocab\":{%s}}}",
            r->model ? r->model : "", r->merges ? r->merges : "", r->vocab);
    fclose(f);
    return text;
}

typedef char *make_fn(const struct recipe *r, size_t *len);

static inline struct tokenizer *make(make_fn *fn, const struct recipe *r)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    size_t len = 0;
    char *text = fn(r, &len);
    bool done = tokenizer_parse(&t, text, len, r->config, r->config ? strlen(r->config) : 0, &err);
    free(text);
    if (!done) {
        fail_msg("%s", err.text);
    }
    return t;
}

#endif

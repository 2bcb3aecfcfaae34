/* test_tokenizer_damaged.c - every damaged tokenizer file is refused with one line that names the
 * file and the field.
 */
#include "tests/lib/tokenizer_recipe.h"

#define TEN(text) text text text text text text text text text text

static const struct {
    struct recipe r;
    const char *text;
} damaged[] = {
    {{.vocab = "\"x y\":7"}, "belongs to another token"},
    {{.vocab = "\"a\":300"}, "there already with another id"},
    {{.vocab = "\"x y\":-1"}, "not in 0 .. 999999"},
    {{.vocab = "\"x y\":1000000"}, "not in 0 .. 999999"},
    {{.vocab = "\"x y\":1.5"}, "an integer is expected"},
    {{.vocab = "\"x y\":\"1\""}, "an integer is expected"},
    {{.vocab = "\"\xff\":300"}, "not UTF-8"},
    {{.vocab = "\"\\ud800\":300"}, "surrogate"},
    {{.vocab = "\"\xed\xa0\x80\":300"}, "not UTF-8"},
    {{.vocab = "\"\xc0\xaf\":300"}, "not UTF-8"},
    {{.vocab = "\"\xe0\x80\xaf\":300"}, "not UTF-8"},
    {{.vocab = "\"\xf0\x80\x80\xaf\":300"}, "not UTF-8"},
    {{.vocab = "\"\xf4\x90\x80\x80\":300"}, "not UTF-8"},
    {{.vocab = "\"x y\":257"}, "model.vocab: no token has the id 256, but one has 257"},
    {{.vocab = "\"x y\":999999"}, "model.vocab: no token has the id 256, but one has 999999"},
    {{.vocab = "\"\":256", .merges = "[\"\",\"a\"]"}, "pair of tokens"}, /* a cycle */
    {{.vocab = "\"\":256", .merges = "\" a\""}, "one space between"},
    {{.merges = "\"a b\""}, "model.merges[0]: 'ab' is not in the vocabulary"},
    {{.merges = "[\"a\",\"zz\"]"}, "model.merges[0]: 'zz' is not in the vocabulary"},
    {{.vocab = "\"ab\":256",
      .merges = TEN("\"a b\",") TEN("\"a b\",") TEN("\"a b\",") TEN("\"a b\",") "\"zz b\""},
     "model.merges[40]: 'zz' is not in the vocabulary"}, /* in the second block of 32 */
    {{.merges = "\"ab\""}, "one space between"},
    {{.merges = "\"a b c\""}, "one space between"},
    {{.merges = "[\"a\"]"}, "pair of tokens"},
    {{.merges = "[\"a\",\"b\",\"c\"]"}, "pair of tokens"},
    {{.merges = "7"}, "a string is expected"},
    {{.model = "\"type\":\"BPE\","}, "comes twice"},
    {{.model = "\"unk_token\":\"<unk>\","}, "model.unk_token is not in the vocabulary"},
    {{.model = "\"fuse_unk\":1,"}, "model.fuse_unk is neither"},
    {{.model = "\"dropout\":0.1,"}, "model.dropout is set"},
    {{.model = "\"end_of_word_suffix\":\"</w>\","}, "model.end_of_word_suffix is set"},
    {{.normalizer = "{\"type\":\"Nmt\"}"}, "normalizer: 'Nmt' is not supported"},
    {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"b\"}"},
     "Replace is supported for a String of 1 to 256 bytes"},
    {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"b\"}"},
     "Replace is supported for a String of 1 to 256 bytes"},
    {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"},
     "Replace.content is not a text"},
    {{.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
                    "\"\\u2581\"},{\"type\":\"NFC\"}]}"},
     "a step after those that put U+2581"},
    {{.normalizer = "{}"}, "normalizer: a step has no type"},
    {{.normalizer = "{\"type\":\"Prepend\",\"prepend\":\"x\"}"}, "Prepend with anything but"},
    {{.pre = "{\"type\":\"Whitespace\"}"}, "pre_tokenizer: 'Whitespace' is not supported"},
    {{.pre = "null"}, "neither ByteLevel nor U+2581"},
    {{.pre = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}"},
     "cannot be compiled"},
    {{.pre = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Merged\"}"},
     "behavior is none of"},
    {{.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":"
             "\"Digits\"}]}"},
     "a step after ByteLevel"},
    {{.pre = "{\"type\":\"ByteLevel\",\"use_regex\":\"yes\"}"},
     "use_regex is neither true nor false"},
    {{.decoder = "{\"type\":\"WordPiece\"}"}, "decoder: 'WordPiece' is not supported"},
    {{.post = "{\"type\":\"RobertaProcessing\"}"},
     "post_processor: 'RobertaProcessing' is not supported"},
    {{.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}],"
              "\"special_tokens\":{\"<s>\":{\"ids\":[999]}}}"},
     "names no token of the vocabulary"},
    {{.added = "{\"id\":97,\"content\":\"zz\"}"},
     "added_tokens[0]: the id belongs to another token"},
    {{.added = "{\"id\":300,\"content\":\"a\"}"}, "added_tokens[0]: the token is there already"},
    {{.added = "{\"id\":\"300\",\"content\":\"zz\"}"}, "id is not an integer"},
    {{.added = "{\"id\":-1,\"content\":\"zz\"}"}, "added_tokens[0]: the id is not in 0 .. 999999"},
    {{.added = "{\"id\":1000000,\"content\":\"zz\"}"}, "the id is not in 0 .. 999999"},
    {{.added = "{\"id\":1.5,\"content\":\"zz\"}"}, "an integer is expected"},
    {{.added = "{\"content\":\"zz\"}"}, "added_tokens[0]: id is not an integer"},
    {{.added = "{\"id\":300}"}, "added_tokens[0]: content is not a string of 1 to 256 bytes"},
    {{.added = "{\"id\":256,\"content\":\"yy\"},7"}, "added_tokens[1]: an object is expected"},
    {{.added = "{\"id\":300,\"content\":\"\"}"}, "content is not a string of 1 to 256 bytes"},
    {{.added = "{\"id\":300,\"content\":\"zz\",\"special\":1}"}, "a flag is neither"},
    {{.config = "{\"eos_token_id\":256}"}, "eos_token_id: not an id of the vocabulary (0 .. 255)"},
    {{.config = "{\"eos_token_id\":[1,-1]}"}, "eos_token_id: not an id of the vocabulary"},
    {{.config = "{\"eos_token\":\"</s>\"}"}, "eos_token is not in the vocabulary"},
    {{.config = "{\"add_bos_token\":true}"}, "add_bos_token is true, but"},
    {{.config = "[]"}, "tokenizer_config.json: not a JSON object"},
    {{.config = "{"}, "tokenizer_config.json: not a JSON object"},
};

static void test_damaged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        const struct recipe *r = &damaged[i].r;
        struct tokenizer *t = NULL;
        struct engine_error err = {0};
        size_t len = 0;
        char *text = make_bytes_json(r, &len);
        assert_false(
            tokenizer_parse(&t, text, len, r->config, r->config ? strlen(r->config) : 0, &err));
        free(text);
        assert_null(t);
        assert_int_equal(err.code, ENGINE_BAD_FILE);
        if (!strstr(err.text, damaged[i].text) || strchr(err.text, '\n')) {
            fail_msg("row %zu: %s", i, err.text);
        }
    }
}

static void refuse_text(const char *json, size_t len, const char *want)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    assert_false(tokenizer_parse(&t, json, len, NULL, 0, &err));
    assert_int_equal(err.code, ENGINE_BAD_FILE);
    if (!strstr(err.text, want)) {
        fail_msg("'%.60s': %s", json, err.text);
    }
}

static const struct {
    const char *fields, *want;
} unigrams[] = {
    {"\"vocab\":{}", "model.vocab"},
    {"\"vocab\":[]", "model.vocab is empty"},
    {"\"vocab\":[\"a\"]", "model.vocab"},
    {"\"vocab\":[[\"a\"]]", "not a pair"},
    {"\"vocab\":[[\"a\",-1,2]]", "not a pair"},
    {"\"vocab\":[[-1,\"a\"]]", "model.vocab: at its byte"},
    {"\"vocab\":[[\"a\",\"b\"]]", "a number is expected"},
    {"\"vocab\":[[\"a\",1e999]]", "a number is expected"},
    {"\"vocab\":[[\"a\",-]]", "a number is expected"},
    {"\"vocab\":[[\"a\",-1],[\"a\",-2]]", "model.vocab[1]: the token is there already"},
    {"\"vocab\":[[\"a\",-1]],\"unk_id\":1", "model.unk_id is not in the vocabulary"},
    {"\"vocab\":[[\"a\",-1]],\"unk_id\":\"a\"", "model.unk_id is not in the vocabulary"},
    {"\"vocab\":[[\"a\",-1]],\"unk_id\":0", "neither ByteLevel nor U+2581"},
};

static void test_damaged_text(void **state)
{
    (void)state;
    static char deep[70000];
    refuse_text("", 0, "an object is expected");
    refuse_text("[]", 2, "an object is expected");
    refuse_text("{}", 2, "model.type ''");
    refuse_text("{} x", 4, "something follows");
    refuse_text("{\"model\":{\"type\":\"WordPiece\"}}", 30, "model.type 'WordPiece' is not");
    refuse_text("{\"model\":{\"type\":\"Unigram\"}}", 28, "model.vocab is missing");
    for (size_t i = 0; i < sizeof unigrams / sizeof *unigrams; i++) {
        char text[512];
        int n = snprintf(text, sizeof text, "{\"model\":{\"type\":\"Unigram\",%s}}",
                         unigrams[i].fields);
        refuse_text(text, (size_t)n, unigrams[i].want);
    }
    refuse_text("{\"model\":{\"type\":\"BPE\"}}", 24, "model.vocab is missing");
    refuse_text("{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", 35, "model.vocab is empty");
    refuse_text("{\"x\":[}]}", 9, "a bracket closes nothing");
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"x\":", 5);
    refuse_text(deep, sizeof deep, "nested too deeply");
    memset(deep, ' ', sizeof deep);
    refuse_text(deep, 65u << 20,
                "larger than 64 MiB"); /* refused by its length, before it is read */
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    assert_false(tokenizer_open(&t, "tests/nowhere", &err));
    assert_int_equal(err.code, ENGINE_IO);
    assert_non_null(strstr(err.text, "tests/nowhere/tokenizer.json"));
}

/* A file that was cut off anywhere is refused, never half used. */
static void test_cut_off(void **state)
{
    (void)state;
    FILE *f = fopen(SPACES_FOLDER "/tokenizer.json", "r");
    assert_non_null(f);
    static char text[16384];
    size_t len = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_in_range(len, 5000, sizeof text - 1);
    while (len > 0 && text[len - 1] != '}') {
        len--;
    }
    for (size_t n = 0; n < len; n += n < len - 300 ? 13 : 1) {
        struct tokenizer *t = NULL;
        char *copy = malloc(n + 1); /* so that a sanitizer sees reads past the end */
        memcpy(copy, text, n);
        char *exact = realloc(copy, n ? n : 1);
        assert_false(tokenizer_parse(&t, exact, n, NULL, 0, NULL));
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_damaged_text),
                                       cmocka_unit_test(test_cut_off)};
    return cmocka_run_group_tests_name("tokenizer_damaged", tests, NULL, NULL);
}

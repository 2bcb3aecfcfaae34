/* test_tokenizer.c - against ids from a slow encoder that shares nothing with ours
 * (tests/vectors/make_tokenizer_vectors.py), and small tokenizer files made for one property each.
 */
#include "local-engine/wordscan.h"
#include "tests/lib/tokenizer_recipe.h"

#include <jansson.h>
#include <time.h>

static struct tokenizer *open_folder(const char *folder)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    if (!tokenizer_open(&t, folder, &err)) {
        fail_msg("%s", err.text);
    }
    return t;
}

/* ids as "1 2 3" */
static void expect(const struct tokenizer *t, const char *text, size_t len, bool is_start,
                   const char *want)
{
    char got[512] = "";
    int32_t *ids = NULL;
    size_t n = 0, at = 0;
    struct engine_error err = {0};
    if (!tokenizer_encode(t, text, len, is_start, &ids, &n, &err)) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", (int)ids[i]);
        assert_true(at < sizeof got);
    }
    free(ids);
    assert_string_equal(got, want);
}
#define EXPECT(t, text, want)       expect(t, text, sizeof(text) - 1, true, want)
#define EXPECT_LATER(t, text, want) expect(t, text, sizeof(text) - 1, false, want)

/* ---- vectors */

static char *decode(const struct tokenizer *t, const int32_t *ids, size_t n, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        const char *piece = tokenizer_piece(t, ids[i], i == 0, &k);
        fwrite(piece, 1, k, f);
    }
    fclose(f);
    return text;
}

static char *text_of(const json_t *line, size_t *len)
{
    const char *hex = json_string_value(json_object_get(line, "hex"));
    size_t n = strlen(hex) / 2, times = (size_t)json_integer_value(json_object_get(line, "times"));
    char *text = malloc(n * times + 1);
    for (size_t i = 0; i < n * times; i++) {
        unsigned b = 0;
        assert_int_equal(sscanf(hex + 2 * (i % n), "%2x", &b), 1);
        text[i] = (char)b;
    }
    *len = n * times;
    return text;
}

static void check_line(const struct tokenizer *t, const json_t *line, int number)
{
    size_t len = 0, n = 0, back_len = 0;
    int32_t *ids = NULL;
    struct engine_error err = {0};
    const json_t *want = json_object_get(line, "ids");
    char *text = text_of(line, &len);
    if (!tokenizer_encode(t, text, len, true, &ids, &n, &err)) {
        fail_msg("line %d: %s", number, err.text);
    }
    bool is_same = n == json_array_size(want);
    for (size_t i = 0; is_same && i < n; i++) {
        is_same = ids[i] == json_integer_value(json_array_get(want, i)) &&
                  !tokenizer_is_special(t, ids[i]);
    }
    if (!is_same) {
        fail_msg("line %d: other ids", number);
    }
    char *back = decode(t, ids, n, &back_len);
    assert_int_equal(back_len, len);
    assert_memory_equal(back, text, len);
    free(back);
    free(ids);
    free(text);
}

static void check_vectors(const char *folder, const char *path)
{
    struct tokenizer *t = open_folder(folder);
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    int n = 0;
    assert_non_null(f);
    while (getline(&line, &cap, f) > 0) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        check_line(t, j, ++n);
        json_decref(j);
    }
    assert_true(n >= 80);
    free(line);
    fclose(f);
    tokenizer_close(t);
}

static void test_vectors_bytes(void **state)
{
    (void)state;
    check_vectors(BYTES_FOLDER, "tests/vectors/tokenizer-bytes.jsonl");
}

static void test_vectors_spaces(void **state)
{
    (void)state;
    check_vectors(SPACES_FOLDER, "tests/vectors/tokenizer-spaces.jsonl");
}

/* ---- what the shipped files say */

static void test_folders(void **state)
{
    (void)state;
    size_t n = 0;
    struct tokenizer *t = open_folder(SPACES_FOLDER);
    assert_int_equal(tokenizer_n_vocab(t), 512);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_true(tokenizer_adds_bos(t));
    assert_int_equal(tokenizer_eos(t, &n)[0], 2);
    assert_int_equal(n, 1);
    assert_true(tokenizer_is_special(t, 0) && tokenizer_is_special(t, 1) &&
                tokenizer_is_special(t, 2) && !tokenizer_is_special(t, 3));
    assert_false(tokenizer_is_special(t, -1) || tokenizer_is_special(t, 512));
    assert_string_equal(tokenizer_spelling(t, 2), "</s>");
    assert_null(tokenizer_spelling(t, 512));
    assert_null(tokenizer_spelling(t, -1));
    assert_int_equal(tokenizer_find_special(t, "<s>"), 1);
    assert_int_equal(tokenizer_find_special(t, "[") + tokenizer_find_special(t, "nothing"), -2);
    EXPECT(t, "Once upon a time", "403 407 261 378");
    tokenizer_close(t);
    t = open_folder(BYTES_FOLDER);
    assert_int_equal(tokenizer_n_vocab(t), 4096);
    assert_true(tokenizer_bos(t) == 0 && tokenizer_adds_bos(t) && tokenizer_is_special(t, 0));
    assert_int_equal(tokenizer_eos(t, &n)[0], 0);
    tokenizer_close(t);
}

static void test_pieces(void **state)
{
    (void)state;
    size_t len = 0;
    struct tokenizer *t = open_folder(SPACES_FOLDER);
    const char *s = tokenizer_piece(t, 403, false, &len);
    assert_true(len == 5 && memcmp(s, " Once", 5) == 0);
    s = tokenizer_piece(t, 403, true, &len);
    assert_true(len == 4 && memcmp(s, "Once", 4) == 0);
    s = tokenizer_piece(t, 3 + 0xff, false, &len); /* <0xFF> */
    assert_true(len == 1 && (unsigned char)s[0] == 0xff);
    for (int32_t id = -1; id <= 2; id++) {
        (void)tokenizer_piece(t, id, false, &len);
        assert_int_equal(len, 0);
    }
    (void)tokenizer_piece(t, 512, false, &len);
    assert_int_equal(len, 0);
    tokenizer_close(t);
    t = open_folder(BYTES_FOLDER);
    s = tokenizer_piece(t, 1 + ' ', true,
                        &len); /* byte-level: a leading space belongs to the text */
    assert_true(len == 1 && s[0] == ' ');
    tokenizer_close(t);
}

/* ---- cutting */

/* 256: "12", 257: "ab", 258: space and 0xe1, 259: "a1" */
static const char cut_vocab[] = "\"12\":256,\"ab\":257,\"\\u0120\\u00e1\":258,\"a1\":259";
static const char cut_merges[] = "\"1 2\",[\"a\",\"b\"],\"\\u0120 \\u00e1\",[\"a\",\"1\"]";

static struct tokenizer *make_cut(const char *pre)
{
    const struct recipe r = {.pre = pre, .vocab = cut_vocab, .merges = cut_merges};
    return make(make_bytes_json, &r);
}

static void test_byte_level(void **state)
{
    (void)state;
    struct tokenizer *t = make_cut(NULL);
    EXPECT(t, "ab12", "257 256");
    EXPECT(t, "a1", "97 49"); /* letters and digits are different pieces */
    EXPECT(t, "", "");
    EXPECT(t, " \xe1\xa0\x8ex", "258 160 142 120"); /* U+180E is no space */
    EXPECT(t,
           "a\xff"
           "b",
           "97 255 98");
    tokenizer_close(t);
    t = make_cut("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}");
    EXPECT(t, "a1ab12", "259 257 256");
    tokenizer_close(t);
}

static void test_digits(void **state)
{
    (void)state;
    const char *each = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                       "\"individual_digits\":true},"
                       "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}";
    const char *runs = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                       "\"individual_digits\":false},"
                       "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}";
    struct tokenizer *t = make_cut(each);
    EXPECT(t, "12ab12", "49 50 257 49 50");
    tokenizer_close(t);
    t = make_cut(runs);
    EXPECT(t, "12a12", "256 97 256");
    tokenizer_close(t);
}

static void test_split(void **state)
{
    (void)state;
    const char *qwen =
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
        "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*"
        "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false}"
        ","
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}";
    const char *removed = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                          "\"pattern\":{\"Regex\":\"[a-z]|[0-9]+\"},"
                          "\"behavior\":\"Removed\",\"invert\":true},{\"type\":\"ByteLevel\",\"add_"
                          "prefix_space\":false,\"use_regex\":false}]}";
    const char *literal = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                          "\"pattern\":{\"String\":\"b1.\"},"
                          "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                          "false,\"use_regex\":false}]}";
    struct tokenizer *t = make_cut(qwen);
    EXPECT(t, "12 ab a1", "49 50 32 257 32 97 49");
    tokenizer_close(t);
    t = make_cut(removed);
    EXPECT(t, "ab?12", "97 98 256");
    tokenizer_close(t);
    t = make_cut(literal);
    EXPECT(t, "ab1.2", "97 98 49 46 50");
    EXPECT(t, "ab1x12", "257 49 120 256");
    tokenizer_close(t);
}

static void test_prefix_space(void **state)
{
    (void)state;
    struct tokenizer *t = make_cut("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}");
    EXPECT(t, "ab", "32 257");
    EXPECT(t, " ab", "32 257");
    EXPECT(t, "", "");
    EXPECT_LATER(t, "ab", "257");
    tokenizer_close(t);
    t = make_cut("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_"
                 "digits\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":true}]}");
    EXPECT(t, "1a", "32 49 32 97"); /* each piece that comes this far */
    EXPECT(t, " 1", "32 32 49");
    EXPECT_LATER(t, "1a", "49 32 97");
    tokenizer_close(t);
}

static void test_nfc(void **state)
{
    (void)state;
    const struct recipe r = {.normalizer = "{\"type\":\"NFC\"}"};
    struct tokenizer *t = make(make_bytes_json, &r);
    EXPECT(t, "e\xcc\x81", "195 169"); /* e and acute: U+00E9 */
    EXPECT(t, "a\xcc\x81\xcc\xa3",
           "225 186 161 204 129"); /* marks in the wrong order: U+1EA1, acute */
    EXPECT(t, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "234 176 129"); /* Hangul */
    EXPECT(t, "\xe2\x84\xab\xffx",
           "195 133 255 120"); /* the Angstrom sign, and a byte that is no text */
    EXPECT(t, "\xe0\xa5\x98", "224 164 149 224 164 188"); /* excluded from composition */
    tokenizer_close(t);
}

static void test_ignore_merges(void **state)
{
    (void)state;
    struct recipe r = {.vocab = "\"abc\":256", .model = "\"ignore_merges\":true,"};
    struct tokenizer *t = make(make_bytes_json, &r);
    EXPECT(t, "abc abc", "256 32 97 98 99");
    tokenizer_close(t);
    r.added = "{\"id\":256,\"content\":\"abc\",\"special\":true}";
    t = make(make_bytes_json, &r);
    EXPECT(t, "abc", "97 98 99");
    tokenizer_close(t);
}

/* ---- SentencePiece's manner */

static const char spaces_vocab[] =
    "\"<unk>\":0,\"" SP "\":1,\"a\":2,\"b\":3,\"" SP "a\":4,\"" SP SP "\":5,\"a" SP "\":6";
static const char spaces_merges[] = "\"" SP " a\",\"" SP " " SP "\",[\"a\",\"" SP "\"]";
static const char unk_model[] = "\"unk_token\":\"<unk>\",\"fuse_unk\":true,";

static struct tokenizer *make_metaspace(const char *pre)
{
    const struct recipe r = {.pre = pre,
                             .vocab = spaces_vocab,
                             .merges = spaces_merges,
                             .model = unk_model,
                             .decoder = "{\"type\":\"Metaspace\",\"replacement\":\"" SP
                                        "\",\"prepend_scheme\":\"always\"}",
                             .added = "{\"id\":7,\"content\":\"<x>\",\"special\":false}"};
    return make(make_spaces_json, &r);
}

static void test_metaspace(void **state)
{
    (void)state;
    size_t len = 0;
    struct tokenizer *t = make_metaspace("{\"type\":\"Metaspace\",\"replacement\":\"" SP
                                         "\",\"prepend_scheme\":\"always\",\"split\":true}");
    EXPECT(t, "a", "4");
    EXPECT(t, " a", "4"); /* no second space */
    EXPECT(t, "a a", "4 4");
    EXPECT(t, "a  b", "4 1 1 3"); /* each U+2581 begins a piece */
    EXPECT(t, "a<x>a", "4 7 4");
    EXPECT_LATER(t, "a<x>a", "2 7 4");
    (void)tokenizer_piece(t, 4, true, &len);
    assert_int_equal(len, 1);
    assert_true(tokenizer_spaces_after_special(t));
    tokenizer_close(t);
    t = make_metaspace("{\"type\":\"Metaspace\",\"replacement\":\"" SP
                       "\",\"prepend_scheme\":\"first\",\"split\":false}");
    EXPECT(t, "a<x>a", "4 7 2");
    EXPECT(t, "a  b", "4 5 3");
    EXPECT(t, "<x>a", "7 2");
    assert_false(tokenizer_spaces_after_special(t));
    tokenizer_close(t);
    t = make_metaspace("{\"type\":\"Metaspace\",\"replacement\":\"" SP
                       "\",\"add_prefix_space\":false}");
    EXPECT(t, "a a", "2 4");
    tokenizer_close(t);
}

static void test_unknown(void **state)
{
    (void)state;
    struct tokenizer *t = make_metaspace("{\"type\":\"Metaspace\",\"replacement\":\"" SP "\"}");
    EXPECT(t,
           "a?\xc3\xa9"
           "a",
           "4 0 2"); /* a row of them is one */
    tokenizer_close(t);
    const struct recipe r = {.pre = "{\"type\":\"Metaspace\",\"replacement\":\"" SP "\"}",
                             .vocab = spaces_vocab};
    struct engine_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    t = make(make_spaces_json, &r);
    assert_false(tokenizer_encode(t, "a?", 2, true, &ids, &n, &err));
    assert_int_equal(err.code, ENGINE_BAD_PARAM);
    assert_non_null(strstr(err.text, "0x3f"));
    assert_null(ids);
    tokenizer_close(t);
}

/* A merge, a single character and a byte that make a special token: text must not. */
static void test_no_special_from_text(void **state)
{
    (void)state;
    const struct recipe r = {
        .pre = "{\"type\":\"Metaspace\",\"replacement\":\"" SP "\",\"prepend_scheme\":\"never\"}",
        .vocab = "\"<unk>\":0,\"a\":1,\"b\":2,\"ab\":3,\"c\":4,\"<0x63>\":5,\"<0x64>\":6",
        .merges = "\"a b\"",
        .model = "\"unk_token\":\"<unk>\",\"byte_fallback\":true,",
        .added = "{\"id\":3,\"content\":\"ab\",\"special\":true},{\"id\":4,\"content\":\"c\","
                 "\"special\":true},"
                 "{\"id\":6,\"content\":\"<0x64>\",\"special\":true}"};
    struct tokenizer *t = make(make_spaces_json, &r);
    EXPECT(t, "abcd", "1 2 5 0");
    tokenizer_close(t);
}

/* ---- added tokens */

static void test_added(void **state)
{
    (void)state;
    const struct recipe r = {.vocab = "\"12\":256",
                             .merges = "\"1 2\"",
                             .normalizer = "{\"type\":\"NFC\"}",
                             .added = "{\"id\":300,\"content\":\"<t>\"},{\"id\":301,\"content\":\"<"
                                      "t>>\"},{\"id\":302,\"content\":\"<s>\",\"special\":true},"
                                      "{\"id\":303,\"content\":\"e\\u0301!\",\"normalized\":true},{"
                                      "\"id\":304,\"content\":\"word\",\"single_word\":true},"
                                      "{\"id\":305,\"content\":\"<l>\",\"lstrip\":true,\"rstrip\":"
                                      "true},{\"id\":306,\"content\":\"</s>\"}",
                             .config = "{\"eos_token\":\"</s>\"}"};
    size_t len = 0, n = 0;
    struct tokenizer *t = make(make_bytes_json, &r);
    EXPECT(t, "12<t>12", "256 300 256");
    EXPECT(t, "<t>><t><t", "301 300 60 116");
    EXPECT(t, "<s>", "60 115 62");
    EXPECT(t, "</s>",
           "60 47 115 62");        /* ends a sequence, so it is special whatever its flag says */
    EXPECT(t, "\xc3\xa9!", "303"); /* in normalized text, by its normalized spelling */
    EXPECT(t, "word", "304");
    EXPECT(t, "a word.", "97 32 304 46");
    EXPECT(t, "words", "119 111 114 100 115");
    EXPECT(t, "1 \xc2\xa0<l>\n 2", "49 305 50");
    assert_int_equal(tokenizer_n_vocab(t), 307);
    assert_null(tokenizer_spelling(t, 299)); /* a hole */
    (void)tokenizer_piece(t, 299, false, &len);
    assert_int_equal(len, 0);
    assert_memory_equal(tokenizer_piece(t, 300, true, &len), "<t>", 3);
    assert_int_equal(tokenizer_eos(t, &n)[0], 306);
    tokenizer_close(t);
}

/* ---- bos and eos */

static void test_bos_eos(void **state)
{
    (void)state;
    size_t n = 0;
    struct recipe r = {.config = "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"!\"},\"eos_"
                                 "token\":\"#\",\"eos_token_id\":[5,6,5]}"};
    struct tokenizer *t = make(make_bytes_json, &r);
    assert_true(tokenizer_bos(t) == '!' && tokenizer_adds_bos(t));
    assert_int_equal(tokenizer_eos(t, &n)[1], 6);
    assert_int_equal(n, 2);
    tokenizer_close(t);
    r.post = "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"
             "\"TemplateProcessing\","
             "\"single\":[{\"SpecialToken\":{\"id\":\"$\"}},{\"Sequence\":{\"id\":\"A\"}},{"
             "\"SpecialToken\":{\"id\":\"#\"}}],"
             "\"special_tokens\":{\"$\":{\"id\":\"$\",\"ids\":[36]},\"#\":{\"id\":\"#\",\"ids\":["
             "35]}}}]}";
    t = make(make_bytes_json, &r);
    assert_true(tokenizer_bos(t) == '$' && tokenizer_adds_bos(t));
    tokenizer_close(t);
    r.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}}],"
             "\"special_tokens\":{}}";
    t = make(make_bytes_json, &r);
    assert_true(tokenizer_bos(t) == '!' && !tokenizer_adds_bos(t)); /* the template decides */
    tokenizer_close(t);
    r.post = "{\"type\":\"ByteLevel\"}";
    r.config = NULL;
    t = make(make_bytes_json, &r);
    assert_true(tokenizer_bos(t) == -1 && !tokenizer_adds_bos(t));
    (void)tokenizer_eos(t, &n);
    assert_int_equal(n, 0);
    tokenizer_close(t);
}

/* ---- time */

static double seconds(const struct tokenizer *t, const char *unit, size_t len)
{
    struct timespec a, b;
    size_t unit_len = strlen(unit), n = 0;
    char *text = malloc(len);
    double best = 1e9;
    for (size_t i = 0; i < len; i++) {
        text[i] = unit[i % unit_len];
    }
    for (int i = 0; i < 2; i++) {
        int32_t *ids = NULL;
        struct engine_error err = {0};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        if (!tokenizer_encode(t, text, len, true, &ids, &n, &err)) {
            fail_msg("%s", err.text);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        free(ids);
        double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
        best = s < best ? s : best;
    }
    free(text);
    return best;
}

/* Sixteen times the text takes some twenty times as long; what grows with the square would take
 * 256 times. Between them there is room for caches that another process empties. */
#define LINEAR_RATIO 60

static void check_linear(const struct tokenizer *t, const char *unit)
{
    double small = 1e9, large = 1e9;
    for (int i = 0; i < 20 && (i == 0 || large > LINEAR_RATIO * small); i++) {
        double s = seconds(t, unit, 1 << 16), l = seconds(t, unit, 1 << 20);
        small = s < small ? s : small;
        large = l < large ? l : large;
    }
    if (getenv("TOKENIZER_TIMES")) {
        print_message("'%s': %.1f ms for 1 MiB, %.1f times 64 KiB\n", unit, large * 1e3,
                      large / small);
    }
    if (large > LINEAR_RATIO * small) {
        fail_msg("'%s': 64 KiB take %.6f s, 1 MiB %.6f s", unit, small, large);
    }
}

#define UNIGRAM(vocab, more)                                                                       \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":"   \
    "\"always\",\"split\":false},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"}" \
    ","                                                                                            \
    "\"model\":{\"type\":\"Unigram\"," more "\"vocab\":[" vocab "]}}"

static struct tokenizer *make_unigram(const char *json)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    if (!tokenizer_parse(&t, json, strlen(json), NULL, 0, &err)) {
        fail_msg("%s", err.text);
    }
    return t;
}

static void test_linear(void **state)
{
    (void)state;
    static const char *const units[] = {
        "a",   " ",     "\n", "  x", "a1", "the ", "\xff", "\xcc\x81", "\xcc\x81\xcc\xa3",
        " \r", "\xff ", "Ab"};
    const struct recipe nfc = {
        .normalizer = "{\"type\":\"NFC\"}",
        .vocab = "\"aa\":256,\"aaaa\":257",
        .merges = "\"a a\",\"aa aa\"",
        .pre =
            "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
            "\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lo}\\\\p{"
            "M}]+|\\\\p{N}{1,3}"
            "| "
            "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/"
            "]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\"},"
            "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"};
    char pre[1024];
    json_t *split = json_pack("{s:s,s:{s:s},s:s}", "type", "Split", "pattern", "Regex",
                              wordscan_pattern(WORDSCAN_LLAMA3), "behavior", "Isolated");
    char *text = json_dumps(split, 0);
    (void)snprintf(pre, sizeof pre,
                   "{\"type\":\"Sequence\",\"pretokenizers\":[%s,{\"type\":\"ByteLevel\","
                   "\"add_prefix_space\":false,\"use_regex\":false}]}",
                   text);
    const struct recipe llama3 = {.pre = pre};
    free(text);
    json_decref(split);
    struct tokenizer *t[] = {open_folder(BYTES_FOLDER), open_folder(SPACES_FOLDER),
                             make(make_bytes_json, &nfc), make(make_bytes_json, &llama3),
                             make_unigram(UNIGRAM("[\"a\",-1],[\"aa\",-1.5],[\"aaaaaaaa\",-2],"
                                                  "[\"\\u2581the\",-3],[\"<unk>\",0]",
                                                  "\"unk_id\":4,"))};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            check_linear(t[k], units[i]);
        }
        tokenizer_close(t[k]);
    }
}

/* A pattern that would run for ever is stopped. */
static void test_steps_limit(void **state)
{
    (void)state;
    struct tokenizer *t = make_cut("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                                   "\"pattern\":{\"Regex\":\"(a+)+b\"},"
                                   "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_"
                                   "prefix_space\":false,\"use_regex\":false}]}");
    struct engine_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    assert_false(tokenizer_encode(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaacb", 42, true, &ids,
                                  &n, &err));
    assert_int_equal(err.code, ENGINE_BAD_PARAM);
    assert_non_null(strstr(err.text, "too many steps"));
    tokenizer_close(t);
}

/* ---- normalizers */

static const struct {
    const char *normalizer, *text, *want; /* ids of bytes are the bytes */
} normalized[] = {
    {"{\"type\":\"NFC\"}", "e\xcc\x81", "195 169"},
    {"{\"type\":\"NFD\"}", "\xc3\xa9", "101 204 129"},
    {"{\"type\":\"NFKC\"}", "\xef\xac\x81", "102 105"},
    {"{\"type\":\"NFKC\"}", "\xff\xef\xac\x81\xff", "255 102 105 255"},
    {"{\"type\":\"NFKD\"}", "\xe2\x84\xab", "65 204 138"},
    {"{\"type\":\"NFKC\"}", "e\xcc\x81", "195 169"},
    {"{\"type\":\"Lowercase\"}", "A\xc3\x80\xff\xc4\xb0z", "97 195 160 255 105 204 135 122"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
     " \xc2\xa0"
     "a b\n",
     "97 32 98"},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " a ", "32 97"},
    {"{\"type\":\"Strip\"}", " \n", ""},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"xyz\"}", "aab-ab",
     "97 120 121 122 45 120 121 122"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"\"}", "abab", ""},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"_\"}", "a  b c   ",
     "97 95 98 32 99 95"},
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},"
     "{\"type\":\"Strip\"}]}",
     " \xef\xbc\xa1 ", "97"},
};

static void test_normalizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof normalized / sizeof *normalized; i++) {
        const struct recipe r = {.normalizer = normalized[i].normalizer};
        struct tokenizer *t = make(make_bytes_json, &r);
        expect(t, normalized[i].text, strlen(normalized[i].text), true, normalized[i].want);
        tokenizer_close(t);
    }
}

/* ---- Unigram's choice */

static void test_unigram(void **state)
{
    (void)state;
    /* the best sum wins, not the longest token */
    struct tokenizer *t =
        make_unigram(UNIGRAM("[\"<unk>\",0],[\"\\u2581\",-1],[\"a\",-2],[\"b\",-2.5],"
                             "[\"ab\",-4],[\"abb\",-9e0],[\"\\u2581a\",-2.0]",
                             "\"unk_id\":0,"));
    EXPECT(t, "ab", "6 3");
    EXPECT(t, "abb", "6 3 3");
    EXPECT_LATER(t, "ab", "4");
    EXPECT(t, "a \xe6\x97\xa5\xe6\x9c\xac z", "6 1 0 1 0"); /* unknown neighbours are one */
    EXPECT(t, "\xff\xff", "1 0");
    EXPECT(t, "", "");
    size_t len = 0;
    assert_memory_equal(tokenizer_piece(t, 6, false, &len), " a", 2);
    assert_memory_equal(tokenizer_piece(t, 6, true, &len), "a", 1);
    tokenizer_close(t);
    t = make_unigram(
        UNIGRAM("[\"<unk>\",0],[\"\\u2581\",-1],[\"<0xE6>\",0],[\"<0x97>\",0],[\"<0xA5>\",0]",
                "\"unk_id\":0,\"byte_fallback\":true,"));
    EXPECT(t, "\xe6\x97\xa5", "1 2 3 4");
    EXPECT(t, "\xe6\x97\xa5z", "1 0"); /* z has no byte's token, and belongs to the row */
    tokenizer_close(t);
}

/* Of all ways to cut a text by brute force. */
static double best_sum(const char *const *tokens, const double *scores, size_t n, const char *s)
{
    double best = *s ? -1e9 : 0;
    for (size_t i = 0; *s && i < n; i++) {
        size_t len = strlen(tokens[i]);
        if (strncmp(s, tokens[i], len) == 0) {
            double sum = scores[i] + best_sum(tokens, scores, n, s + len);
            best = sum > best ? sum : best;
        }
    }
    return best;
}

static void test_unigram_is_the_best(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "ba", "aab", "bab", "abba", "bb", "aa"};
    static const double scores[] = {-3.1, -2.9, -4.7, -5.3, -7.7, -6.9, -9.2, -5.9, -5.6};
    struct tokenizer *t = make_unigram(UNIGRAM(
        "[\"a\",-3.1],[\"b\",-2.9],[\"ab\",-4.7],[\"ba\",-5.3],[\"aab\",-7.7],[\"bab\",-6.9],"
        "[\"abba\",-9.2],[\"bb\",-5.9],[\"aa\",-5.6]",
        ""));
    for (unsigned bits = 0; bits < 4096; bits++) {
        char text[13] = "";
        int32_t *ids = NULL;
        size_t n = 0;
        double sum = 0;
        struct engine_error err = {0};
        for (size_t i = 0; i < 12; i++) {
            text[i] = bits >> i & 1 ? 'b' : 'a';
        }
        assert_true(tokenizer_encode(t, text, 12, false, &ids, &n, &err));
        for (size_t i = 0; i < n; i++) {
            sum += scores[ids[i]];
        }
        double want = best_sum(tokens, scores, 9, text);
        assert_true(sum > want - 1e-9 && sum < want + 1e-9);
        free(ids);
    }
    tokenizer_close(t);
}

/* A long text is cut into windows: the ids go on as before, and a row of unknown characters over
 * several windows is one. */
static void test_unigram_windows(void **state)
{
    (void)state;
    enum { LEN = 60000 };
    struct tokenizer *t = make_unigram(
        UNIGRAM("[\"a\",-3],[\"b\",-3],[\"aab\",-4],[\"baa\",-4.5],[\"abaab\",-6],[\"<unk>\",0]",
                "\"unk_id\":5,"));
    char *text = malloc(LEN);
    int32_t *ids = NULL;
    size_t n = 0;
    struct engine_error err = {0};
    assert_non_null(text);
    for (size_t i = 0; i < LEN; i++) {
        text[i] = i % 3 == 2 ? 'b' : 'a';
    }
    assert_true(tokenizer_encode(t, text, LEN, false, &ids, &n, &err));
    assert_int_equal(n, LEN / 3);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ids[i], 2);
    }
    free(ids);
    memset(text, 'z', LEN - 1);
    assert_true(tokenizer_encode(t, text, LEN, false, &ids, &n, &err));
    assert_true(n == 2 && ids[0] == 5 && ids[1] == 1);
    free(ids);
    free(text);
    tokenizer_close(t);
}

/* A number that no integer holds stands in the config of most models. */
static void test_config_with_a_large_number(void **state)
{
    (void)state;
    const struct recipe r = {
        .added = "{\"id\":256,\"content\":\"<s>\",\"special\":true}",
        .config = "{\"model_max_length\":1000000000000000019884624838656,\"bos_token\":\"<s>\","
                  "\"add_bos_token\":true}"};
    struct tokenizer *t = make(make_bytes_json, &r);
    assert_true(tokenizer_adds_bos(t) && tokenizer_bos(t) == 256);
    tokenizer_close(t);
}

/* Gemma's vocabulary has runs of U+2581 as added tokens, and one token with a word's beginning in
 * it. */
static void test_spaces_in_tokens(void **state)
{
    (void)state;
    const struct recipe r = {
        .normalizer =
            "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}",
        .added = "{\"id\":6,\"content\":\"\\u2581\\u2581\"}",
        .vocab = "\"\\u2581\":0,\"a\":1,\">\":2,\">\\u2581\":3,\"a\\u2581\":4,\"\\u2581a\":5,"
                 "\"\\u2581\\u2581\":6",
        .merges = "[\">\",\"\\u2581\"],[\"\\u2581\",\"a\"],[\"\\u2581\",\"\\u2581\"]"};
    struct tokenizer *t = make(make_spaces_json, &r);
    size_t len = 0;
    EXPECT(t, "a> a a", "1 3 1 5");
    EXPECT(t, "a  a", "1 0 5");
    EXPECT(t, "a   ", "1 6 0");
    assert_memory_equal(tokenizer_piece(t, 6, false, &len), "  ", 2);
    assert_int_equal(len, 2);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normalizers),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_unigram_is_the_best),
        cmocka_unit_test(test_unigram_windows),
        cmocka_unit_test(test_config_with_a_large_number),
        cmocka_unit_test(test_spaces_in_tokens),
        cmocka_unit_test(test_vectors_bytes),
        cmocka_unit_test(test_vectors_spaces),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_prefix_space),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_ignore_merges),
        cmocka_unit_test(test_metaspace),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_no_special_from_text),
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_bos_eos),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_steps_limit),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}

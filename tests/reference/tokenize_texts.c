/* tokenize_texts.c - our side of the comparison with other people's tokenizers: reads texts, writes
 * the ids of each and what they give back.
 *
 * usage: tokenize_texts FOLDER|FILE.gguf
 * in:  [length u32][bytes] for each text
 * out: [n u32][ids i32 * n][length u32][bytes] for each; one line first, "ready" or why not.
 */
#include "local-engine/tokenizer_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool put(const void *p, size_t len)
{
    return len == 0 || fwrite(p, 1, len, stdout) == len;
}

static bool put_decoded(const struct tokenizer *t, const int32_t *ids, size_t n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        const char *piece = tokenizer_piece(t, ids[i], i == 0, &k);
        (void)fwrite(piece, 1, k, f); /* memory: fclose says */
    }
    bool done = fclose(f) == 0;
    uint32_t count = (uint32_t)len;
    done = done && put(&count, sizeof count) && put(text, len);
    free(text);
    return done;
}

static bool answer(const struct tokenizer *t, const char *text, size_t len)
{
    int32_t *ids = NULL;
    size_t n = 0;
    struct engine_error err = {0};
    if (!tokenizer_encode(t, text, len, true, &ids, &n, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    uint32_t count = (uint32_t)n;
    bool done = put(&count, sizeof count) && put(ids, n * sizeof *ids) && put_decoded(t, ids, n);
    free(ids);
    return done;
}

static bool answer_all(const struct tokenizer *t)
{
    uint32_t len = 0;
    bool done = true;
    while (done && fread(&len, sizeof len, 1, stdin) == 1) {
        char *text = malloc((size_t)len + 1);
        done = text && (len == 0 || fread(text, 1, len, stdin) == len) && answer(t, text, len);
        free(text);
    }
    return done && fflush(stdout) == 0;
}

static bool open_any(struct tokenizer **t, const char *path, struct engine_error *err)
{
    struct gguf *g = NULL;
    size_t len = strlen(path);
    if (len < 5 || strcmp(path + len - 5, ".gguf") != 0) {
        return tokenizer_open(t, path, err);
    }
    bool done = gguf_open(&g, path, err) && tokenizer_from_gguf(t, g, err);
    gguf_close(g);
    return done;
}

int main(int argc, char **argv)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    if (argc != 2 || !open_any(&t, argv[1], &err)) {
        printf("%s\n", argc == 2 ? err.text : "usage: tokenize_texts FOLDER|FILE.gguf");
        return 1;
    }
    printf("ready\n");
    bool done = answer_all(t);
    tokenizer_close(t);
    return done ? 0 : 1;
}

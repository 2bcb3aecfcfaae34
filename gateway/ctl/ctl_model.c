/* ctl_model.c - the table of its verbs. */
#include "ctl_model.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *usage, *text;
} verbs[] = {
    {"pull", ctl_model_pull,
     "pull URL|hf:OWNER/REPO[:FILE] [--dir FOLDER] [--sha256 HEX] [--force]",
     "fetches a model's files; what was begun goes on"},
    {"info", ctl_model_info, "info PATH [--json]",
     "family, shape, tensors by type, tokenizer, memory needed"},
    {"verify", ctl_model_verify, "verify PATH [--sha256 HEX] [--json]",
     "every check, every number, the hash"},
    {"quantize", ctl_model_quantize,
     "quantize IN OUT.gguf --type q8_0|q4_0|f16|f32 [--text FILE] [--force] [--json]",
     "writes the weights in another type; what that costs"},
};

static void print_usage(FILE *out)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        (void)fprintf(out, "%s isothermctl model %s\n", i ? "      " : "usage:", verbs[i].usage);
    }
    (void)fputs("\n", out);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        (void)fprintf(out, "  %-10s%s\n", verbs[i].name, verbs[i].text);
    }
    (void)fputs(
        "\nPATH is a model's folder (config.json with model.safetensors, or with shards and "
        "their index) or a .gguf file.\n"
        "Exit status: 0 done, 1 the model is damaged or the work failed, 2 usage.\n",
        out);
}

int ctl_model(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].fn(argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr,
                  "isothermctl model: there is no verb '%s': see isothermctl model --help\n",
                  argv[1]);
    return 2;
}

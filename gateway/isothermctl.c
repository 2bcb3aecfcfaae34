/* isothermctl.c - the tool: one table of verbs. Exit status 0 done, 1 the thing asked about is
 * wrong or failed, 2 usage. */
#include "base/program.h"
#include "ctl/ctl_catalog.h"
#include "ctl/ctl_degeneration.h"
#include "ctl/ctl_distribution.h"
#include "ctl/ctl_explain.h"
#include "ctl/ctl_fingerprints.h"
#include "ctl/ctl_generate.h"
#include "ctl/ctl_logits.h"
#include "ctl/ctl_model.h"
#include "ctl/ctl_perplexity.h"
#include "ctl/ctl_sample.h"
#include <stdio.h>
#include <string.h>

#ifndef ISOTHERM_VERSION
#define ISOTHERM_VERSION "0.1.0"
#endif

/* Each gets argv[0] = the verb. */
static const struct verb {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *text;
} verbs[] = {
    {"explain", ctl_explain, "what would be sent for a request, and why; calls nobody"},
    {"generate", ctl_generate, "offline generation straight on the engine"},
    {"distribution", ctl_distribution, "what each stage of the sampler keeps of the next token"},
    {"degeneration", ctl_degeneration, "how much a model repeats itself, setting by setting"},
    {"catalog", ctl_catalog, "what providers accept: show, compare, correct, check, probe"},
    {"fingerprints", ctl_fingerprints, "list and show the records of answers"},
    {"sample", ctl_sample, "the sampler alone: JSON lines in, JSON lines out"},
    {"model", ctl_model,
     "fetch a model, what its files hold, whether they are whole, other types of them"},
    {"perplexity", ctl_perplexity, "how well a model predicts a text"},
    {"logits", ctl_logits, "raw logits of a model for given token ids"},
};

static void print_usage(FILE *out)
{
    (void)fputs("usage: isothermctl VERB [options]\n\n", out);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        (void)fprintf(out, "  %-14s %s\n", verbs[i].name, verbs[i].text);
    }
    (void)fputs("\nEach verb has --help. Exit status: 0 done, 1 wrong or failed, 2 usage.\n", out);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("isothermctl %s\n", ISOTHERM_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].fn(argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "isothermctl: there is no verb '%s': see isothermctl --help\n", argv[1]);
    return 2;
}

int main(int argc, char **argv)
{
    program_hold_descriptors();
    return program_end("isothermctl", run(argc, argv));
}

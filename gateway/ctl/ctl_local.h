/* ctl_local.h - what verbs have in common that run a local model over a prompt: the options, the
 * model, the prompt's tokens.
 *
 * Options become the same `params` object that the daemon sends to the engine, and link_params.c
 * reads them: an option means exactly what the parameter of that name means, and is refused with
 * the same words.
 */
#ifndef ISOTHERM_CTL_LOCAL_H
#define ISOTHERM_CTL_LOCAL_H

#include "local-engine/engine.h"
#include "local-engine/link_params.h"

#include <jansson.h>

/* The options, for a verb's own help: model and prompt; sampling. */
#define CTL_LOCAL_HELP_MODEL                                                                       \
    "  -m, --model MODEL          a model's folder or .gguf file, or 'local': the one that came "  \
    "with the program (default)\n"                                                                 \
    "      --prompt TEXT          what to continue; '-' reads it from standard input\n"            \
    "      --chat                 the prompt is a user's message: the model's template goes "      \
    "around it\n"                                                                                  \
    "      --chat-template NAME   another template than that of the model's files\n"
#define CTL_LOCAL_HELP_SAMPLING                                                                    \
    "      --temperature X        default 1; 0 takes the most likely token\n"                      \
    "      --top-k N  --top-p X  --min-p X  --typical-p X\n"                                       \
    "      --presence-penalty X  --frequency-penalty X  --repetition-penalty X\n"                  \
    "      --penalty-scope WORD   generated (default) or all: what --repetition-penalty counts\n"  \
    "      --no-repeat-ngram-size N\n"                                                             \
    "      --logit-bias ID=BIAS   -100 to 100; may be given several times\n"                       \
    "      --sampler-order WORD   isotherm (default), hf, vllm, llama.cpp or sglang: whose order " \
    "and boundary rules\n"                                                                         \
    "      --json-schema FILE     the answer is JSON that the schema allows\n"                     \
    "      --regex PATTERN        the answer as a whole matches\n"                                 \
    "      --choice TEXT          the answer is one of these; given several times\n"
#define CTL_LOCAL_HELP_END                                                                         \
    "      --threads N            default: one a core, at most 8\n"                                \
    "      --json                 one JSON object at the end in place of text\n"                   \
    "      --help                 this text\n"

struct ctl_local_options {
    const char *verb, *usage; /* given by the verb */
    const char *model, *prompt, *chat_template;
    bool is_chat, is_json;
    int n_threads;
    enum engine_speculation speculation;
    const char *draft; /* a model as `model`, or NULL */
    json_t *params;    /* owned */
};

/* An option of the verb's own, with a value. */
struct ctl_local_own {
    const char *name;
    const char *expected; /* what is right, for an error text */
    bool (*take)(const char *value, void *ud);
};
#define CTL_LOCAL_OWN_MAX 8

/* -1: go on; otherwise the exit status. `o` begins with verb and usage only. Release it in any
 * case. */
int ctl_local_parse(struct ctl_local_options *o, int argc, char **argv,
                    const struct ctl_local_own *own, size_t n_own, void *ud);
void ctl_local_options_release(struct ctl_local_options *o);
/* Says one line and returns 2. fmt has one %s. */
int ctl_local_usage_error(const struct ctl_local_options *o, const char *fmt, const char *what);

struct ctl_local {
    struct engine *engine;
    struct link_params params;
    int32_t *prompt;
    size_t n_prompt;
};
/* Reads the parameters (a seed is drawn where none was given), opens the model, encodes the prompt.
 * Strings are borrowed from `o`. Close it in any case. */
ENGINE_WARN_UNUSED bool ctl_local_open(struct ctl_local *l, const struct ctl_local_options *o,
                                       struct engine_error *err);
/* Adds a text to the prompt; *n: its tokens. */
ENGINE_WARN_UNUSED bool ctl_local_append(struct ctl_local *l, const char *text, size_t *n,
                                         struct engine_error *err);
void ctl_local_close(struct ctl_local *l);

/* The folder or file behind a -m option: "local" is the model that came with the program. `path`
 * has PATH_MAX bytes. Whether it is a model is the engine's to say. */
ENGINE_WARN_UNUSED bool ctl_local_find_model(const char *name, char *path,
                                             struct engine_error *err);

#endif

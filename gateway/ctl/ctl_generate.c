/* ctl_generate.c - a session of the engine, its events printed as they come or gathered. */
#include "gateway/ctl/ctl_generate.h"

#include "gateway/base/jsonio.h"
#include "gateway/ctl/ctl_local.h"
#include "local-engine/token_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUTPUT_BYTES_MAX (256u << 20)

static const char usage[] =
    "usage: isothermctl generate [-m MODEL] --prompt TEXT [options]\n"
    "Generates text with a local model. The same seed gives the same text on any "
    "machine.\n" CTL_LOCAL_HELP_MODEL
    "      --max-tokens N         default: to the end of the context\n" CTL_LOCAL_HELP_SAMPLING
    "      --seed N               a 64-bit integer; default, and -1: drawn and reported\n"
    "      --stop TEXT            ends the answer before TEXT; may be given several times\n"
    "      --stop-token-ids IDS   comma-separated ids that end the answer\n"
    "      --min-tokens N  --ignore-eos\n"
    "      --n N  --best-of N     several answers; the best by mean log-probability\n"
    "      --use-beam-search  --num-beams N  --length-penalty X   a search in place of sampling\n"
    "      --echo                 the prompt comes first; then --max-tokens may be 0\n"
    "      --speculation WORD     lookup (default) or off: whether tokens are guessed from what "
    "was said before;\n"
    "                             the answer is the same\n"
    "      --draft-model MODEL    a smaller model of the same vocabulary that guesses; the answer "
    "is the same\n"
    "      --logprobs  --top-logprobs N  --logprobs-mode WORD   with --json\n" CTL_LOCAL_HELP_END;

/* One answer while it comes. */
struct answer {
    struct buf text;
    json_t *logprobs; /* or NULL */
    const char *finish;
    const char *stop; /* the stop string that was met */
    int64_t n_tokens;
    int64_t n_guessed, n_guessed_right;
};

struct run {
    const struct ctl_local_options *o;
    struct ctl_local local;
    struct answer answers[ENGINE_CHOICES_MAX];
    struct engine_error err;
    bool streams; /* prints text as it comes */
    double seconds;
};

/* ---- events */

static bool add_logprobs(struct run *r, struct answer *a, const struct session_event *ev)
{
    const struct tokenizer *t = engine_tokenizer(r->local.engine);
    a->logprobs = a->logprobs ? a->logprobs : json_array();
    for (size_t i = 0; i < ev->n_tokens; i++) {
        json_t *token =
            token_json_logprobs(t, &ev->tokens[i], (size_t)r->local.params.n_top_logprobs);
        if (json_object_set_new(token, "id", json_integer(ev->tokens[i].id)) != 0 ||
            json_array_append_new(a->logprobs, token) != 0) {
            return false;
        }
    }
    return a->logprobs != NULL;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct run *r = ud;
    struct answer *a = &r->answers[ev->choice];
    if (ev->kind == SESSION_ERROR) {
        r->err = *ev->error;
    } else if (ev->kind == SESSION_FINISH) {
        a->finish = ev->finish;
        a->n_tokens = ev->n_generated;
        a->n_guessed = ev->n_guessed;
        a->n_guessed_right = ev->n_guessed_right;
        a->stop = ev->matched_stop >= 0 ? r->local.params.stops[ev->matched_stop] : NULL;
    } else if (r->streams) {
        if (ev->len > 0 &&
            (fwrite(ev->text, 1, ev->len, stdout) != ev->len || fflush(stdout) != 0)) {
            (void)engine_fail(&r->err, ENGINE_IO, "", "standard output: %s", strerror(errno));
        }
    } else if (!buf_append(&a->text, ev->text, ev->len) ||
               (r->local.params.logprobs && !add_logprobs(r, a, ev))) {
        (void)engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for an answer");
    }
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool compute(struct run *r)
{
    struct session_request request =
        link_params_request(&r->local.params, r->local.prompt, r->local.n_prompt);
    struct session *s;
    double start = now_s();
    if (!session_start(r->local.engine, &request, on_event, r, &s, &r->err)) {
        return false;
    }
    while (r->err.code == ENGINE_OK && !session_is_done(s)) {
        (void)engine_step(r->local.engine);
    }
    session_free(s);
    r->seconds = now_s() - start;
    return r->err.code == ENGINE_OK;
}

/* ---- output */

/* Of all answers. */
static struct answer count(const struct run *r)
{
    struct answer all = {.n_tokens = 0};
    for (int64_t i = 0; i < r->local.params.n; i++) {
        all.n_tokens += r->answers[i].n_tokens;
        all.n_guessed += r->answers[i].n_guessed;
        all.n_guessed_right += r->answers[i].n_guessed_right;
    }
    return all;
}

static json_t *answer_object(struct answer *a)
{
    json_t *o = json_pack("{s:o, s:s, s:s?, s:I}", "text",
                          json_stringn(a->text.p ? a->text.p : "", a->text.len), "finish",
                          a->finish, "stop", a->stop, "tokens", (json_int_t)a->n_tokens);
    if (o && a->logprobs && json_object_set(o, "logprobs", a->logprobs) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static bool print_json(struct run *r)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < r->local.params.n; i++) {
        if (json_array_append_new(list, answer_object(&r->answers[i])) != 0) {
            json_decref(list);
            return engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for the answer");
        }
    }
    struct answer all = count(r);
    int64_t n = all.n_tokens;
    json_t *o =
        json_pack("{s:o, s:I, s:{s:I, s:I, s:I}, s:{s:I, s:I}, s:s}", "choices", list, "seed",
                  (json_int_t)r->local.params.seed, "usage", "prompt_tokens",
                  (json_int_t)r->local.n_prompt, "completion_tokens", (json_int_t)n, "total_tokens",
                  (json_int_t)((int64_t)r->local.n_prompt + n), "speculation", "proposed",
                  (json_int_t)all.n_guessed, "accepted", (json_int_t)all.n_guessed_right,
                  "fingerprint", engine_fingerprint(r->local.engine));
    struct buf out;
    buf_init(&out, OUTPUT_BYTES_MAX);
    bool ok = o && jsonio_write(&out, o) && buf_puts(&out, "\n") &&
              fwrite(out.p, 1, out.len, stdout) == out.len;
    buf_release(&out);
    json_decref(o);
    return ok ||
           engine_fail(&r->err, ENGINE_IO, "", "the answer cannot be written: %s", strerror(errno));
}

static void print_texts(const struct run *r)
{
    for (int64_t i = 0; !r->streams && i < r->local.params.n; i++) {
        (void)printf("--- %lld (%s)\n", (long long)i, r->answers[i].finish);
        (void)fwrite(r->answers[i].text.p ? r->answers[i].text.p : "", 1, r->answers[i].text.len,
                     stdout);
        (void)putchar('\n');
    }
    if (r->streams) {
        (void)putchar('\n');
    }
}

static bool print(struct run *r)
{
    int64_t n = count(r).n_tokens;
    if (r->o->is_json) {
        return print_json(r) &&
               (fflush(stdout) == 0 ||
                engine_fail(&r->err, ENGINE_IO, "", "standard output: %s", strerror(errno)));
    }
    print_texts(r);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return engine_fail(&r->err, ENGINE_IO, "", "standard output: %s", strerror(errno));
    }
    (void)fprintf(stderr, "seed %lld, %zu + %lld tokens, %s, %.1f tokens/s\n",
                  (long long)r->local.params.seed, r->local.n_prompt, (long long)n,
                  r->answers[0].finish, r->seconds > 0 ? (double)n / r->seconds : 0.0);
    return true;
}

/* ---- */

static bool generate(struct run *r)
{
    if (!ctl_local_open(&r->local, r->o, &r->err)) {
        return false;
    }
    r->streams = !r->o->is_json && r->local.params.n == 1;
    return compute(r) && print(r);
}

static void release(struct run *r)
{
    for (size_t i = 0; i < ENGINE_CHOICES_MAX; i++) {
        buf_release(&r->answers[i].text);
        json_decref(r->answers[i].logprobs);
    }
    ctl_local_close(&r->local);
}

static int run_with(const struct ctl_local_options *o)
{
    static struct run r; /* large */
    memset(&r, 0, sizeof r);
    r.o = o;
    for (size_t i = 0; i < ENGINE_CHOICES_MAX; i++) {
        buf_init(&r.answers[i].text, OUTPUT_BYTES_MAX);
    }
    int status = generate(&r) ? 0 : r.err.code == ENGINE_BAD_PARAM ? 2 : 1;
    if (status) {
        (void)fprintf(stderr, "isothermctl generate: %s\n", r.err.text);
    }
    release(&r);
    return status;
}

static bool take_speculation(const char *value, void *ud)
{
    struct ctl_local_options *o = ud;
    return engine_speculation_parse(value, &o->speculation);
}

static bool take_draft(const char *value, void *ud)
{
    struct ctl_local_options *o = ud;
    o->draft = value;
    return *value != '\0';
}

int ctl_generate(int argc, char **argv)
{
    static const struct ctl_local_own own[] = {
        {"speculation", "off or lookup", take_speculation},
        {"draft-model", "a folder or a .gguf file", take_draft},
    };
    struct ctl_local_options o = {.verb = "generate", .usage = usage};
    int status = ctl_local_parse(&o, argc, argv, own, sizeof own / sizeof *own, &o);
    if (status < 0 && json_object_get(o.params, "logprobs") && !o.is_json) {
        status = ctl_local_usage_error(&o, "%s needs --json", "--logprobs");
    }
    if (status < 0 && json_object_get(o.params, "echo") && o.is_chat) {
        status = ctl_local_usage_error(&o, "%s needs a prompt that is no chat", "--echo");
    }
    status = status < 0 ? run_with(&o) : status;
    ctl_local_options_release(&o);
    return status;
}

/* ctl_model_pull.c - isothermctl model pull: which files, from where, to where; pull.c fetches
 * each.
 *
 * The hub is $HF_ENDPOINT, else the public one. Without a file name the repository is listed by the
 * hub's API, and what the engine reads is fetched; weights last, so that a model without its
 * tokenizer is not taken for one.
 */
#include "gateway/ctl/ctl_model.h"

#include "gateway/base/paths.h"
#include "gateway/ctl/ctl_options.h"
#include "gateway/ctl/pull.h"

#include <curl/curl.h>
#include <errno.h>
#include <getopt.h> /* optind */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 1100, NAME_BYTES_MAX = 255, URL_BYTES_MAX = 4096 };

static const char usage[] =
    "usage: isothermctl model pull URL|hf:OWNER/REPO[:FILE] [options]\n"
    "Fetches a model's files. What was begun goes on with the same command; a file is in place "
    "only\n"
    "when it is whole and its hash is right. HTTPS only, but for this machine.\n"
    "  hf:OWNER/REPO:FILE  a file of the hub, such as a .gguf; without FILE all that the engine\n"
    "                      reads: config, tokenizer, template and the safetensors\n"
    "      --dir FOLDER    where to (default: here; made where it is not there)\n"
    "      --sha256 HEX    what the file's SHA-256 must be; else the hub's own, where it says so\n"
    "      --force         fetch also what is there already\n"
    "      --tries N       how often in a row, with growing waits, where a connection breaks or a\n"
    "                      server is busy and nothing more came, 1 to 100 (default: 5)\n"
    "      --help          this text\n"
    "Environment: HF_TOKEN is sent to the hub's own host, and to no other; HF_ENDPOINT is another\n"
    "hub. Exit status: 0 done, 1 failed, 2 usage, 130 interrupted.\n";

struct options {
    const char *source, *dir, *sha256;
    bool is_forced;
    long n_tries;
};

struct work {
    const struct options *o;
    const struct ctl_verb *verb;
    const char *hub, *token; /* token NULL: none */
    char error[512];
};

static int fail(const char *why, const char *what)
{
    (void)fprintf(stderr, "isothermctl model pull: '%.200s': %s\n", what, why);
    return 1;
}

/* A name of ours in the folder: one part, nothing hidden, nothing that a terminal would obey. */
static bool is_file_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_BYTES_MAX - 10 || name[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/') {
            return false;
        }
    }
    return true;
}

/* ---- one file */

static int pull_one(struct work *w, const char *url, const char *token, const char *name)
{
    char path[PATH_MAX];
    struct pull_result done = {.n_bytes = 0};
    if (!is_file_name(name) ||
        snprintf(path, sizeof path, "%s/%s", w->o->dir, name) >= (int)sizeof path) {
        return fail("its last part is no name for a file here", url);
    }
    if (!w->o->is_forced && access(path, F_OK) == 0) {
        return fail("is there already: --force replaces it", path);
    }
    struct pull p = {.url = url,
                     .token = token,
                     .path = path,
                     .sha256 = w->o->sha256,
                     .n_tries = (int)w->o->n_tries,
                     .may_replace = w->o->is_forced,
                     .shows_bar = isatty(STDERR_FILENO) == 1};
    enum pull_end end = pull_file(&p, &done, w->error);
    if (end != PULL_DONE) {
        (void)fprintf(stderr, "isothermctl model pull: %s\n", w->error);
        return end == PULL_INTERRUPTED ? 130 : 1;
    }
    (void)printf("%s: %lld bytes, sha256 %s%s\n", path, (long long)done.n_bytes, done.sha256,
                 done.is_checked ? ", as expected" : "");
    return fflush(stdout) == 0 ? 0 : fail(strerror(errno), "standard output");
}

/* The last part of a URL's path, decoded. */
static int pull_url(struct work *w, const char *url)
{
    CURLU *u = curl_url();
    char *path = NULL;
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PATH, &path, CURLU_URLDECODE) == CURLUE_OK;
    const char *why = pull_check_url(url);
    int status;
    if (why || !ok) {
        status = fail(why ? why : "no URL such as https://HOST/FILE", url);
    } else {
        const char *slash = strrchr(path, '/');
        size_t n = strlen(w->hub);
        bool is_hub = strncmp(url, w->hub, n) == 0 && (url[n] == '/' || url[n] == '\0');
        status = pull_one(w, url, is_hub ? w->token : NULL, slash ? slash + 1 : path);
    }
    curl_free(path);
    curl_url_cleanup(u);
    return status;
}

/* ---- the hub */

/* What the engine reads of a repository; 2: weights. */
static int rank_of(const char *name)
{
    static const char *const small[] = {"config.json",         "generation_config.json",
                                        "tokenizer.json",      "tokenizer_config.json",
                                        "chat_template.jinja", "chat_template.json"};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        if (strcmp(name, small[i]) == 0) {
            return 1;
        }
    }
    size_t n = strlen(name);
    bool is_index = strcmp(name, "model.safetensors.index.json") == 0;
    bool is_weights = strncmp(name, "model", 5) == 0 && n > 12 && !strchr(name, '/') &&
                      strcmp(name + n - 12, ".safetensors") == 0;
    return is_index ? 1 : is_weights ? 2 : 0;
}

static bool is_repository(const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    return slash && slash > text && slash + 1 < text + len && text[0] != '.' && slash[1] != '.' &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") >=
               len &&
           !memchr(slash + 1, '/', len - (size_t)(slash + 1 - text));
}

static int pull_hub_file(struct work *w, const char *repo, size_t repo_len, const char *file)
{
    char url[URL_BYTES_MAX], escaped[3 * 1024 + 1];
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)file; *p; p++) {
        bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                        (*p >= '0' && *p <= '9') || strchr("-._~/", *p);
        if (n + 4 > sizeof escaped) {
            return fail("the name is too long", file);
        }
        n += (size_t)snprintf(escaped + n, 4, is_plain ? "%c" : "%%%02X", *p);
    }
    escaped[n] = '\0';
    if (strstr(file, "..") || file[0] == '/' ||
        snprintf(url, sizeof url, "%s/%.*s/resolve/main/%s", w->hub, (int)repo_len, repo,
                 escaped) >= (int)sizeof url) {
        return fail("no name of a file on the hub", file);
    }
    const char *slash = strrchr(file, '/');
    return pull_one(w, url, w->token, slash ? slash + 1 : file);
}

/* A file that is there already is kept: the others may be what is missing. */
static int pull_hub_listed(struct work *w, const char *repo, const char *file)
{
    char path[PATH_MAX];
    bool fits = snprintf(path, sizeof path, "%s/%s", w->o->dir, file) < (int)sizeof path;
    if (fits && !w->o->is_forced && access(path, F_OK) == 0) {
        (void)fprintf(stderr, "%s: is there already\n", path);
        return 0;
    }
    return pull_hub_file(w, repo, strlen(repo), file);
}

static int pull_hub_list(struct work *w, const char *repo, const json_t *files)
{
    int status = 0;
    size_t n = 0;
    for (int rank = 1; rank <= 2; rank++) {
        for (size_t i = 0; status == 0 && i < json_array_size(files); i++) {
            const char *name =
                json_string_value(json_object_get(json_array_get(files, i), "rfilename"));
            if (name && rank_of(name) == rank && n++ < FILES_MAX) {
                status = pull_hub_listed(w, repo, name);
            }
        }
    }
    return n > 0 ? status
                 : fail("has no config.json and no safetensors: name a file of it as "
                        "hf:OWNER/REPO:FILE",
                        repo);
}

static int pull_hub_all(struct work *w, const char *repo)
{
    char url[URL_BYTES_MAX];
    if (w->o->sha256) {
        return ctl_options_misused(w->verb,
                                   "--sha256 is of one file: name it as hf:OWNER/REPO:FILE");
    }
    (void)snprintf(url, sizeof url, "%.2000s/api/models/%.500s", w->hub, repo);
    char *text = pull_text(url, w->token, (int)w->o->n_tries, w->error);
    if (!text) {
        (void)fprintf(stderr, "isothermctl model pull: %s\n", w->error);
        return 1;
    }
    json_t *about = json_loads(text, 0, NULL);
    const json_t *files = json_object_get(about, "siblings");
    int status = json_is_array(files) ? pull_hub_list(w, repo, files)
                                      : fail("the hub's answer is no list of files", url);
    json_decref(about);
    free(text);
    return status;
}

static int pull_hub(struct work *w, const char *source)
{
    const char *colon = strchr(source, ':');
    size_t len = colon ? (size_t)(colon - source) : strlen(source);
    if (!is_repository(source, len) || (colon && !colon[1])) {
        return ctl_options_misused(
            w->verb, "the hub's models are named as hf:OWNER/REPO or hf:OWNER/REPO:FILE");
    }
    return colon ? pull_hub_file(w, source, len, colon + 1) : pull_hub_all(w, source);
}

/* ---- */

static void on_signal(int number)
{
    (void)number;
    pull_interrupt();
}

int ctl_model_pull(int argc, char **argv)
{
    struct options o = {.dir = ".", .n_tries = 5};
    const struct ctl_option options[] = {
        {.name = "dir", .text = &o.dir},
        {.name = "sha256", .sha256 = &o.sha256},
        {.name = "force", .flag = &o.is_forced},
        {.name = "tries", .number = &o.n_tries, .min = 1, .max = 100}};
    const struct ctl_verb verb = {
        "model pull", usage, 1, "one URL or hf:OWNER/REPO is needed, nothing else", options, 4};
    int status = ctl_options_parse(&verb, argc, argv);
    if (status >= 0) {
        return status;
    }
    o.source = argv[optind];
    char made[PATH_MAX];
    if (snprintf(made, sizeof made, "%s/x", o.dir) >= (int)sizeof made ||
        !paths_make_folders(made, 0777)) { /* the daemon is another user */
        return fail(strerror(errno), o.dir);
    }
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)signal(SIGXFSZ, SIG_IGN); /* writing says so in words */
    const char *hub = getenv("HF_ENDPOINT"), *token = getenv("HF_TOKEN");
    struct work w = {.o = &o,
                     .verb = &verb,
                     .hub = hub && *hub ? hub : "https://huggingface.co",
                     .token = token && *token ? token : NULL};
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* the first request says */
    status = strncmp(o.source, "hf:", 3) == 0 ? pull_hub(&w, o.source + 3) : pull_url(&w, o.source);
    curl_global_cleanup();
    return status;
}

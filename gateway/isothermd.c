/* isothermd.c - the daemon: reads the configuration, opens catalog and records, starts the loops
 * and the engine, waits for signals. */
#include "api/routes.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/program.h"
#include "exchange.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#ifndef ISOTHERM_VERSION
#define ISOTHERM_VERSION "0.1.0"
#endif
#define GRACE_MS 10000 /* requests in flight may end after a signal */

static const char usage[] =
    "usage: isothermd [--config FILE] [--check-config]\n"
    "\n"
    "One local, OpenAI-compatible endpoint with one sampling schema, in front of providers and a "
    "built-in engine.\n"
    "Without a file it serves the embedded default model on 127.0.0.1:4117.\n"
    "\n"
    "  --config FILE    configuration (YAML); files in conf.d/ beside it are read after it\n"
    "  --check-config   read the configuration, say what is wrong, and end: 0 good, 1 bad\n"
    "  --version        print the version\n"
    "  --help           print this\n"
    "\n"
    "Signals: TERM and INT end it after the requests in flight (10 s at most), a second one at "
    "once. HUP reads\n"
    "FILE again: requests that come then use it; what is wrong in it is logged and changes "
    "nothing.\n"
    "Keys of providers are read from environment variables or systemd credentials.\n";

struct options {
    const char *config;
    bool check_only;
};

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"check-config", no_argument, NULL, 'k'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:h", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->config = optarg;
            break;
        case 'k':
            o->check_only = true;
            break;
        case 'v':
            (void)printf("isothermd %s\n", ISOTHERM_VERSION);
            return 0;
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            return program_bad_option("isothermd", c, argv);
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "isothermd: '%s' is not an option: see isothermd --help\n",
                      argv[optind]);
        return 2;
    }
    return -1;
}

static enum log_level level_of(const char *word)
{
    if (strcmp(word, "error") == 0) {
        return LOG_ERROR;
    }
    if (strcmp(word, "warning") == 0) {
        return LOG_WARNING;
    }
    return strcmp(word, "debug") == 0 ? LOG_DEBUG : LOG_INFO;
}

static enum keeper_learn learn_of(const struct config *c)
{
    return strcmp(c->catalog_learn, "off") == 0     ? KEEPER_LEARN_OFF
           : strcmp(c->catalog_learn, "apply") == 0 ? KEEPER_LEARN_APPLY
                                                    : KEEPER_LEARN_SUGGEST;
}

/* From the keeper's thread. */
static void on_snapshot(struct snapshot *s, void *ud)
{
    gateway_change(ud, NULL, s);
}

static bool open_catalog(struct gateway *g)
{
    struct failure f = {.status = 0};
    char path[4096], shipped[4096];
    bool has_shipped = paths_find("catalog.db", shipped, sizeof shipped);
    struct keeper_options o = {.path = path,
                               .shipped = shipped,
                               .is_named = g->conf->catalog_path != NULL,
                               .pin = g->conf->catalog_pin,
                               .learn = learn_of(g->conf),
                               .on_snapshot = on_snapshot,
                               .ud = g};
    if (o.is_named && !has_shipped) {
        o.shipped = NULL; /* the named one is what the error is about */
    }
    if (!config_catalog_path(g->conf, path, sizeof path)) {
        (void)failure_set(&f, 500, "catalog_unusable", NULL, "the path of the catalog is too long");
    } else if (keeper_start(&g->keeper, &o, &g->snap, &f)) {
        return true;
    }
    log_write(LOG_ERROR, "catalog_unusable", "path", path, "error", f.message, NULL);
    return false;
}

static bool open_gate(struct gateway *g)
{
    if (gate_new(&g->gate) && gate_configure(g->gate, g->conf)) {
        return true;
    }
    log_write(LOG_ERROR, "not_started", "error", "out of memory", NULL);
    return false;
}

static bool open_records(struct gateway *g)
{
    struct failure f = {.status = 0};
    char path[4096];
    if (!config_records_path(g->conf, path, sizeof path)) {
        (void)failure_set(&f, 500, "records_unusable", NULL, "the path of the records is too long");
    } else if (records_open(&g->records, path, &f)) {
        return true;
    }
    log_write(LOG_ERROR, "records_unusable", "path", path, "error", f.message, NULL);
    return false;
}

#define MODELS_MAX 64

/* As isotherm-engine takes it. */
static void format_model(const struct config_model *m, char *out, size_t size)
{
    char memory[32] = "";
    const char *chat = m->chat_template, *draft = m->draft_model;
    if (m->kv_memory) {
        (void)snprintf(memory, sizeof memory, "?kv_memory=%" PRId64, config_bytes(m->kv_memory));
    }
    (void)snprintf(out, size, "%s=%s%s%s%s%s%s%s%s", m->name, m->path, chat ? "?template=" : "",
                   chat ? chat : "", draft ? "?draft=" : "", draft ? draft : "",
                   m->kv_type ? "?kv_type=" : "", m->kv_type ? m->kv_type : "", memory);
}

/* Beside the records. */
static void known_path(const struct config *conf, char *out, size_t cap)
{
    static const char name[] = "weights.known";
    char records[4096] = "";
    (void)config_records_path(conf, records, sizeof records); /* its length was checked */
    char *slash = strrchr(records, '/');
    (void)snprintf(out, cap, "%.*s%s", slash ? (int)(slash - records + 1) : 0, records, name);
}

/* Loop 0 owns the engine's process. */
static void start_engine(struct gateway *g, const struct config *conf, struct loop *l)
{
    static char names[MODELS_MAX][8700], program[4096], folder[4096],
        known[4096]; /* the child is started again with them */
    static const char *models[MODELS_MAX];
    struct failure f = {.status = 0};
    unsigned n = 0;
    for (; n < conf->n_models && n < MODELS_MAX; n++) {
        format_model(&conf->models[n], names[n], sizeof names[n]);
    }
    if (n == 0) {
        (void)paths_find("default-model", folder, sizeof folder);
        (void)snprintf(names[n++], sizeof names[0], "%s=%s", resolve_first_local(conf), folder);
    }
    for (unsigned i = 0; i < n; i++) {
        models[i] = names[i];
    }
    if (conf->engine_program) {
        (void)snprintf(program, sizeof program, "%s", conf->engine_program);
    } else {
        (void)paths_find("isotherm-engine", program, sizeof program);
    }
    known_path(conf, known, sizeof known);
    struct engine_child_options o = {.program = program,
                                     .models = models,
                                     .n_models = n,
                                     .threads = conf->engine_threads,
                                     .memory_max = conf->memory_max,
                                     .known = known,
                                     .speculation = conf->engine_speculation,
                                     .queue_max = LIMIT_ENGINE_QUEUE,
                                     .loop = l};
    struct engine_child *engine = NULL;
    if (!engine_child_start(&engine, &o, &f)) {
        log_write(LOG_ERROR, "engine_not_started", "program", program, "error", f.message, NULL);
    }
    g->engine = engine; /* other loops are running already */
}

static void loop_begin(struct loop *l, unsigned index, void *ud)
{
    struct gateway *g = ud;
    gateway_view_open(g, l, index);
    if (!upstream_new(&g->upstream[index], l)) {
        log_write(LOG_ERROR, "upstream_not_started", "error", strerror(errno), NULL);
        abort(); /* at start only: without it no request of this loop could be answered */
    }
    if (index == 0) {
        struct prepare_env env = {.conf = NULL};
        char day[11];
        gateway_env(g, NULL, day, &env); /* its configuration cannot go away meanwhile */
        start_engine(g, env.conf, l);
        gateway_env_release(&env);
    }
}

static void loop_end(struct loop *l, unsigned index, void *ud)
{
    struct gateway *g = ud;
    (void)l;
    upstream_free(g->upstream[index]);
    g->upstream[index] = NULL;
    gateway_view_close(g, index);
}

static unsigned n_loops(const struct config *c)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = c->threads ? c->threads : cores > 4 ? 4 : cores < 1 ? 1 : (unsigned)cores;
    return n > GATEWAY_LOOPS_MAX ? GATEWAY_LOOPS_MAX : n;
}

static bool start_server(struct gateway *g)
{
    struct failure f = {.status = 0};
    int fds[8];
    int n_fds = sd_listen_fds(1);
    for (int i = 0; i < n_fds && i < 8; i++) {
        fds[i] = SD_LISTEN_FDS_START + i;
    }
    struct server_options o = {.listen =
                                   g->conf->listen && g->conf->listen[0] ? g->conf->listen : NULL,
                               .socket_path = g->conf->socket,
                               .adopted_fds = fds,
                               .n_adopted = n_fds > 0 ? (unsigned)n_fds : 0,
                               .n_loops = n_loops(g->conf),
                               .body_bytes_max = g->conf->body_bytes_max,
                               .in_flight_max = g->conf->in_flight_max,
                               .keepalive_ms = g->conf->keepalive_ms,
                               .handler = routes_handle,
                               .ud = g,
                               .loop_begin = loop_begin,
                               .loop_end = loop_end};
    if (!o.listen && !o.socket_path && !o.n_adopted) {
        log_write(LOG_ERROR, "not_listening", "error", "nobody could connect", "hint",
                  "set listen or socket in the configuration", NULL);
        return false;
    }
    if (server_start(&g->server, &o, &f)) {
        return true;
    }
    log_write(LOG_ERROR, "not_listening", "error", f.message, "hint",
              "free the address, or set listen or socket to another", NULL);
    return false;
}

static void raise_limits(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* a lower limit only means fewer connections */
    }
}

static void say_ready(struct gateway *g)
{
    char port[16], version[24];
    struct snapshot *s = gateway_snapshot(g, 0, NULL);
    (void)snprintf(port, sizeof port, "%u", server_port(g->server));
    (void)snprintf(version, sizeof version, "%" PRId64, snapshot_version(s));
    snapshot_release(s);
    log_write(LOG_INFO, "listening", "address", g->conf->listen ? g->conf->listen : "-", "port",
              port, "socket", g->conf->socket ? g->conf->socket : "-", "catalog_version", version,
              "version", ISOTHERM_VERSION, NULL);
    (void)sd_notify(0, "READY=1");
}

/* What the configuration names and nobody has: told at a start and at a reload, since only a
 * request would show it. */
static void warn_of_providers(struct gateway *g)
{
    char key[CONFIG_KEY_BYTES_MAX + 1];
    struct snapshot *s = gateway_snapshot(g, 0, NULL);
    for (unsigned i = 0; i < g->conf->n_providers; i++) {
        const struct config_provider *p = &g->conf->providers[i];
        if (!snapshot_provider(s, p->catalog)) {
            log_write(LOG_WARNING, "provider_unknown", "provider", p->name, "catalog", p->catalog,
                      "hint", "set catalog to one that 'isothermctl catalog show' lists", NULL);
        }
        if (p->api_key && !config_key(p->api_key, key, sizeof key)) {
            log_write(LOG_WARNING, "provider_without_key", "provider", p->name, "api_key",
                      p->api_key, "hint", "set that environment variable or credential", NULL);
        }
        const char *why =
            p->api_key_file ? config_key_file(p->api_key_file, key, sizeof key) : NULL;
        if (why) {
            log_write(LOG_WARNING, "provider_without_key", "provider", p->name, "api_key_file",
                      p->api_key_file, "error", why, NULL);
        }
        explicit_bzero(key, sizeof key);
        if (p->ca_file && access(p->ca_file, R_OK) != 0) {
            log_write(LOG_WARNING, "provider_without_ca", "provider", p->name, "ca_file",
                      p->ca_file, "error", strerror(errno), NULL);
        }
    }
    snapshot_release(s);
}

/* ---- signals */

static void reload(struct gateway *g, const char *path)
{
    struct config *fresh = NULL;
    struct config_error e;
    const char *key = NULL;
    if (!path) {
        log_write(LOG_WARNING, "not_reloaded", "error", "started without --config", NULL);
        return;
    }
    if (!config_load(&fresh, path, &e)) {
        log_write(LOG_ERROR, "not_reloaded", "error", e.text, "hint", "the old one stays", NULL);
        return;
    }
    key = config_needs_restart(g->conf, fresh);
    if (key) {
        log_write(LOG_ERROR, "not_reloaded", "error", "a reload cannot change this key", "key", key,
                  "hint", "the old one stays: restart, or put the key back", NULL);
        config_free(fresh);
        return;
    }
    if (!gate_configure(g->gate, fresh)) {
        log_write(LOG_WARNING, "not_reloaded", "error", "out of memory", "hint",
                  "some providers keep their limits", NULL);
    }
    gateway_change(g, fresh, NULL);
    keeper_set(g->keeper, fresh->catalog_pin, learn_of(fresh));
    log_init(level_of(fresh->log_level));
    log_write(LOG_INFO, "reloaded", "config", path, NULL);
    warn_of_providers(g);
}

/* Blocks the signals for every thread that is started from now on. */
static void block_signals(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)sigaddset(signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* Until one that ends the daemon; from then on another one of those ends it at once. */
static void wait_for_end(struct gateway *g, const char *config, sigset_t *signals)
{
    int got = 0;
    while (sigwait(signals, &got) != 0 || got == SIGHUP) {
        if (got == SIGHUP) {
            reload(g, config);
            got = 0;
        }
    }
    (void)sd_notify(0, "STOPPING=1");
    log_write(LOG_INFO, "stopping", "signal", got == SIGTERM ? "TERM" : "INT", NULL);
    (void)sigdelset(signals, SIGHUP);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static int serve(struct gateway *g, const char *config)
{
    sigset_t signals;
    block_signals(&signals);
    if (!open_gate(g) || !open_catalog(g) || !open_records(g) || !start_server(g)) {
        return 1;
    }
    warn_of_providers(g);
    say_ready(g);
    keeper_upgrade(g->keeper);
    wait_for_end(g, config, &signals);
    server_halt(g->server, GRACE_MS);
    engine_child_stop(g->engine);
    records_close(g->records); /* its thread posts to the loops */
    g->records = NULL;
    keeper_stop(g->keeper); /* so does this one */
    g->keeper = NULL;
    server_stop(g->server, 0);
    gate_free(g->gate); /* everybody has left: it asserts that */
    return 0;
}

static int run(int argc, char **argv)
{
    static struct gateway g;
    struct options o = {.config = NULL};
    struct config *conf = NULL;
    struct config_error e;
    int rc = parse_options(argc, argv, &o);
    if (rc >= 0) {
        return rc;
    }
    if (!config_load(&conf, o.config, &e)) {
        (void)fprintf(stderr, "isothermd: %s\n", e.text);
        return 1;
    }
    g.conf = conf;
    if (o.check_only) {
        (void)printf("%s: good\n", o.config ? o.config : "the defaults");
        config_free(conf);
        return 0;
    }
    log_init(level_of(g.conf->log_level));
    raise_limits();
    (void)pthread_mutex_init(&g.lock, NULL);
    (void)pthread_cond_init(&g.seen, NULL);
    (void)snprintf(g.build, sizeof g.build, "isotherm/%s", ISOTHERM_VERSION);
    g.started_us = gateway_now_us();
    rc = serve(&g, o.config);
    records_close(g.records);
    keeper_stop(g.keeper);
    snapshot_release(g.snap);
    config_free(g.conf);
    return rc;
}

int main(int argc, char **argv)
{
    program_hold_descriptors();
    return program_end("isothermd", run(argc, argv));
}

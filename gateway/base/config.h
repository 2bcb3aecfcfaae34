/* config.h - the configuration file: parsed whole into a fresh struct, checked whole, then used.
 * Immutable and counted.
 *
 * YAML, read with libcyaml's schema: unknown keys, wrong types and out-of-range values are refused
 * with file, line and key. Secrets are never in it: `api_key` names an environment variable (or,
 * under systemd, a file of $CREDENTIALS_DIRECTORY). A default is written once, in the table that
 * config_write_default() prints as the commented example (config/isotherm.yaml).
 *
 * The keys of the file are the names of the fields of struct config, at the top level; `providers`,
 * `aliases` and `models` are lists of mappings with the fields of their structs. `null` is none,
 * where there is such a thing, also over an earlier file. Anchors, aliases, tags and keys given
 * twice are refused. A file is a regular file of at most CONFIG_BYTES_MAX.
 */
#ifndef ISOTHERM_CONFIG_H
#define ISOTHERM_CONFIG_H

#include "buf.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CONFIG_BYTES_MAX           (1u << 20) /* some thousand times a large configuration */
#define CONFIG_DROPINS_MAX         256        /* files in conf.d */
#define CONFIG_PROVIDERS_MAX       256
#define CONFIG_PROVIDER_MODELS_MAX 1024
#define CONFIG_ALIASES_MAX         1024
#define CONFIG_ALIAS_TARGETS_MAX   16
#define CONFIG_MODELS_MAX          64
#define CONFIG_KEY_BYTES_MAX       4096 /* one API key */

struct config_error {
    char text[512];
}; /* "isotherm.yaml:12: providers[0].base_url: ... , what would be right" */

/* How a provider is called; defaults in config_calls.c. */
struct config_calls {
    unsigned retries; /* more attempts after the first one */
    unsigned retry_wait_max_ms;
    unsigned in_flight_max; /* 0: no limit */
    unsigned queue_ms;
    unsigned breaker_failures; /* 0: never opens */
    unsigned breaker_ms;
    bool retry_sent; /* also after what the provider may have read, and billed */
    bool http2;
    bool allow_retired; /* its models are called also when all of their claims have ended */
};
struct config_provider {
    char *name;     /* the part before the slash in a model's name */
    char *catalog;  /* whose claims hold: provider id in the catalog; default: the name */
    char *base_url; /* http or https, no slash at its end; NULL: the catalog's */
    char *api_key;  /* name of an environment variable or credential, NULL: the catalog's key_env */
    char *api_key_file; /* absolute path, instead of api_key; NULL: none */
    char *ca_file;      /* absolute path: certificates to trust instead of the system's, or NULL */
    struct config_calls calls;
    /* Of requests that are signed; NULL: what the host says. Given, the machine's own credentials
     * sign also for an address that is not the provider's. */
    char *region;
    /* What no request says and claims depend on: "deployment=reasoning", comma between several;
     * NULL: none is set. */
    char *switches;
    char **models; /* models to list in GET /v1/models; any other name is passed on too */
    unsigned n_models;
};
struct config_alias {
    char *name;
    char *target;   /* as written, NULL: a list was; it is in `targets` too */
    char **targets; /* in the order in which they are asked */
    unsigned n_targets;
};
/* local models: local/<name>; the first is `local` */
struct config_model {
    char *name, *path;
    char *draft_model;   /* path of a smaller one that guesses for it; NULL: none */
    char *chat_template; /* a name of local-engine/chat_style.c; NULL: as the model's files say */
    char *kv_type;       /* of keys and values: f32 or f16; NULL: f32 */
    char *kv_memory;     /* for all of them, as config_bytes() reads it; NULL: the engine decides */
};

struct config {
    char *listen;        /* "127.0.0.1:4117"; "" : no TCP */
    char *socket;        /* unix socket path, NULL: none */
    unsigned threads;    /* event loops; 0: one a core, at most 4 */
    char *log_level;     /* error warning info debug */
    char *catalog_path;  /* NULL: see config_catalog_path() */
    int64_t catalog_pin; /* 0: newest */
    char *catalog_learn; /* off suggest apply */
    unsigned catalog_stale_days;
    char *records_path; /* NULL: see config_records_path() */
    /* "refuse": 500 when a record cannot be written; "flag": the answer goes out and is counted */
    char *records_on_failure;
    char *engine_program; /* NULL: beside the program */
    unsigned engine_threads;
    int64_t memory_max;       /* bytes of all loaded local models; 0: no limit */
    char *engine_speculation; /* off lookup */
    char *on_out_of_range, *on_unsupported, *on_many; /* default policy, words of the contract */
    char *fallback; /* model name of the fallback target: "local" */
    unsigned body_bytes_max, in_flight_max, connect_ms, first_byte_ms, idle_ms,
        keepalive_ms; /* 1 s = 1000; defaults in config.c */
    struct config_provider *providers;
    unsigned n_providers;
    struct config_alias *aliases;
    unsigned n_aliases;
    struct config_model *models;
    unsigned n_models;  /* empty: the embedded default model only */
    atomic_uint n_refs; /* beyond the first */
};

/* path NULL: the defaults alone. conf.d/ (a folder named conf.d beside the file): every *.yaml in
 * it, in name order; its keys replace those of the file (lists whole). *out is yours: config_free.
 * */
bool config_load(struct config **out, const char *path, struct config_error *err)
    __attribute__((warn_unused_result));
/* One more reference, for whoever outlives a reload; config_free() gives one back. */
const struct config *config_ref(const struct config *c);
void config_free(const struct config *c);
/* The first key that differs and that only a start takes (sockets, databases, the engine, limits of
 * the server); NULL: `to` can replace `from` in a running daemon. */
const char *config_needs_restart(const struct config *from, const struct config *to);
/* Where the records are: records_path, else records.db in the state folder (paths.h). c NULL: as
 * with the defaults. false: longer than cap. */
bool config_records_path(const struct config *c, char *out, size_t cap);
/* Where the machine's catalog is: catalog_path, else catalog.db in the state folder. It need not be
 * there. */
bool config_catalog_path(const struct config *c, char *out, size_t cap);
/* The commented example with every key and its default. false: the buffer's limit or memory. */
bool config_write_default(struct buf *b);
/* How the provider of that name is called: as configured, else as by default. Borrowed from c. */
const struct config_calls *config_calls_of(const struct config *c, const char *provider);
/* The value behind an `api_key` name: environment, else $CREDENTIALS_DIRECTORY/NAME (at most 4 KB,
 * trailing newline cut). false: not set. */
bool config_key(const char *name, char *out, size_t cap);
/* The key in a file (api_key_file; at most 4 KB, trailing newline cut). NULL, or why there is none;
 * then `out` is untouched. */
const char *config_key_file(const char *path, char *out, size_t cap);

/* "512M": bytes with K, M, G, T for 1024 and its powers, or without. 0: it is nothing of the kind,
 * or none or too many of them. */
int64_t config_bytes(const char *text);

#endif

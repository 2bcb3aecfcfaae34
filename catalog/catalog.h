/* catalog.h - opens the catalog, hands out immutable snapshots of one version, and the rules for
 * one target.
 *
 * Invariants:
 *  - a snapshot never changes: a request keeps the one it began with, whatever versions come after
 * it;
 *  - every pointer that a snapshot or its rules give out lives until snapshot_release() of the last
 * reference;
 *  - no other file of the program sees a `sqlite3 *`.
 */
#ifndef ISOTHERM_CATALOG_CATALOG_H
#define ISOTHERM_CATALOG_CATALOG_H

#include "claim.h"

#define CATALOG_WARN_UNUSED __attribute__((warn_unused_result))

enum catalog_code {
    CATALOG_OK,
    CATALOG_NOMEM,
    CATALOG_IO,
    CATALOG_BAD_SOURCE,
    CATALOG_NOT_FOUND,
    CATALOG_BAD_DB
};
struct catalog_error {
    enum catalog_code code;
    char param[64]; /* field or parameter that is wrong, or "" */
    char text[256]; /* lower case, no full stop, says what to do */
};
/* First error wins; err may be NULL. Always returns false. */
bool catalog_fail(struct catalog_error *err, enum catalog_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- providers: how to reach one, from the "provider" object of its source file */

/* A second way to be called, for the models that the first one does not serve (whose claim about
 * "endpoint" says absent or rejected). The paths are as those of struct provider. */
struct provider_route {
    const char *dialect; /* NULL: there is none */
    const char *chat_path, *stream_path;
    const char *chat_endpoint;
};

/* Where a provider's chat messages differ in structure from what everybody else of its dialect
 * takes; "quirks" of its source file. All false or 0: no differences. */
struct provider_quirks {
    int64_t tool_id_len;      /* ids of tool calls: exactly so many letters and digits; 0: any */
    int64_t tool_id_len_max;  /* at most so many bytes, whatever is in them; 0: any */
    bool has_one_system;      /* at most one system message, the first of all */
    bool has_turn_after_tool; /* between a tool's result and the user an assistant has spoken */
    bool has_strict_messages; /* a message holds role, content, name and tool calls, nothing else */
    bool thinks_in_tags;      /* the answer's text begins with <think>...</think> */
    bool has_call_ids;        /* dialect google: calls and their results carry an id */
    bool has_untyped_links;   /* dialect google: a linked file needs no type beside its address */
    const char *reasoning_key; /* key of reasoning text that is sent back, or NULL */
};

enum catalog_auth {
    CATALOG_AUTH_NONE,
    CATALOG_AUTH_BEARER,
    CATALOG_AUTH_HEADER,
    CATALOG_AUTH_SIGV4 /* bearer where there is a key, else signed with AWS credentials */
};
struct provider {
    const char *id;       /* "openai" */
    const char *title;    /* "OpenAI" */
    const char *dialect;  /* name of a wire dialect: "openai", "anthropic", "engine" */
    const char *base_url; /* "https://api.openai.com/v1"; NULL for the built-in engine */
    /* "/chat/completions", appended to base_url; "{model}" in it is the model's id,
     * percent-encoded */
    const char *chat_path;
    const char *stream_path;      /* where a stream is asked for at another path, or NULL */
    const char *text_path;        /* "/completions", or NULL: no raw completions */
    const char *text_stream_path; /* where a stream of them is asked for at another path, or NULL */
    const char *chat_endpoint, *text_endpoint; /* the claims' `endpoint` of the two, prefix match;
                                                  NULL matches every claim */
    enum catalog_auth auth;
    const char *auth_header; /* for CATALOG_AUTH_HEADER: "x-api-key" */
    /* For CATALOG_AUTH_SIGV4: the service that requests are signed for, "bedrock", and the names of
     * the provider's own hosts, "{region}" in the place of the region, parted by blanks. */
    const char *sign_service, *sign_hosts;
    const json_t
        *headers;        /* object of fixed headers, {"anthropic-version":"2023-06-01"}, or NULL */
    const char *key_env; /* usual environment variable of the key, or NULL */
    bool is_local;       /* the built-in engine */
    /* Model whose claims stand in for models that no pattern knows, or NULL. */
    const char *stand_in;
    const char *request_id_header; /* of its answers; NULL: "x-request-id" */
    /* What people write before its model ids and the path already holds, "models/", or NULL. */
    const char *model_prefix;
    /* Where a chat is asked for whose last message is to be continued, if elsewhere; or NULL. */
    const char *prefill_path;
    struct provider_route also;
    struct provider_quirks quirks;
};

struct catalog;
struct snapshot;

/* Missing, damaged or written by a newer program: false, the file is left as it is. */
CATALOG_WARN_UNUSED bool catalog_open(struct catalog **out, const char *path,
                                      struct catalog_error *err);
/* The same without a check of the whole file, for a program that shows something and ends: what is
 * damaged is found where it is read. */
CATALOG_WARN_UNUSED bool catalog_open_quick(struct catalog **out, const char *path,
                                            struct catalog_error *err);
void catalog_close(struct catalog *c);

/* The snapshot of `version`, or of the newest for 0. Reads the whole version (about 20 ms at five
 * thousand claims) and checks its hash: keep it. Yours: release it. */
CATALOG_WARN_UNUSED bool catalog_snapshot(struct catalog *c, int64_t version, struct snapshot **out,
                                          struct catalog_error *err);
struct snapshot *snapshot_ref(struct snapshot *s);
void snapshot_release(struct snapshot *s); /* thread-safe, NULL allowed */
/* Whether somebody beside the caller holds it, as far as that can be known. */
bool snapshot_is_shared(const struct snapshot *s);
int64_t snapshot_version(const struct snapshot *s);
const char *snapshot_hash(const struct snapshot *s); /* hex SHA-256 of the version's content */
struct catalog_version;
const struct catalog_version *snapshot_header(const struct snapshot *s); /* lives as long */

const struct provider *snapshot_provider(const struct snapshot *s,
                                         const char *id); /* NULL: unknown */
size_t snapshot_n_providers(const struct snapshot *s);
const struct provider *snapshot_provider_at(const struct snapshot *s, size_t i);

/* ---- rules: the claims that hold for one target on one day */
enum behaviour {
    BEHAVIOUR_SYSTEM_ROLE, /* wire: "system" or "messages[].role=system" ... */
    BEHAVIOUR_DEVELOPER_ROLE,
    BEHAVIOUR_PREFILL, /* a last assistant message is continued */
    BEHAVIOUR_MESSAGE_NAME,
    BEHAVIOUR_IMAGES,
    BEHAVIOUR_UNKNOWN_FIELD,
    BEHAVIOUR_STREAM,
    BEHAVIOUR_STREAM_USAGE,
    BEHAVIOUR_CALL_SIGNATURE, /* a call that goes back without what signed it is refused */
    BEHAVIOUR_ENDPOINT,       /* whether this model is served by this endpoint at all */
    BEHAVIOUR_COUNT
};

/* Widest family today: 36 parameters, two conditions each (reasoning effort none, and other than
 * none). */
#define RULES_CONDITIONAL_MAX 160
struct rules {
    const struct provider *provider;
    const char *model; /* borrowed from the caller */
    const struct claim
        *param[PARAM_COUNT]; /* unconditional claim; NULL: nobody says anything, counts as absent */
    const struct claim *behaviour[BEHAVIOUR_COUNT];
    const struct claim *conditional[RULES_CONDITIONAL_MAX]; /* claims with `when`: by parameter, of
                                                               each the strongest first */
    size_t n_conditional;
    uint8_t conditional_first[PARAM_COUNT + 1]; /* where those of a parameter begin; the next one's
                                                   begin is the end */
    uint64_t required_bits;                     /* parameters that a claim here calls required */
    uint64_t condition_bits; /* parameters whose values decide which claims hold */
    bool is_stand_in;        /* no pattern knows the model (or all of its claims have ended):
                                provider->stand_in answers */
    bool is_known;           /* a pattern takes the model, with claims that have not ended */
    const char *retired_on;  /* the model's own claims (else the stand-in's) ended on that day, or
                                NULL */
};

const char *behaviour_name(enum behaviour b);         /* "system_role" */
const char *claim_support_name(enum claim_support s); /* "yes" */
const char *claim_variant_name(enum claim_variant v); /* "current" */

/* ALSO: chat by the provider's second route. */
enum catalog_route { CATALOG_CHAT, CATALOG_TEXT, CATALOG_CHAT_ALSO };

/* Of the claims that match (local beats shipped, pattern beats "*", later as_of beats earlier,
 * derived beats what it refines, higher confidence beats lower, further down in the source beats
 * further up; valid on `day`; variant current or conditional) one for each parameter. An
 * unconditional local claim also beats the shipped conditional ones of its parameter. `day` is
 * "YYYY-MM-DD", given, never read from a clock. A model that matches no pattern gets the claims of
 * the provider's stand_in, else the "*" claims. A behaviour that has only conditional claims gets
 * the one that holds for an empty request. false: provider unknown, or more conditional claims than
 * rules hold. The first time tens of microseconds, then below one: the snapshot keeps what it
 * answered (without a lock). */
CATALOG_WARN_UNUSED bool snapshot_rules(const struct snapshot *s, const char *provider,
                                        const char *model, enum catalog_route route,
                                        const char *day, struct rules *out,
                                        struct catalog_error *err);

/* The same where switches are set that no request can set: "deployment=reasoning,nim_major=2",
 * names and values as in the claims' conditions. NULL or "": all of them are "absent". */
CATALOG_WARN_UNUSED bool snapshot_rules_with(const struct snapshot *s, const char *provider,
                                             const char *model, const char *switches,
                                             enum catalog_route route, const char *day,
                                             struct rules *out, struct catalog_error *err);

/* A model whose every claim, on all routes of its provider, has ended. */
struct catalog_retired {
    const char *on;         /* the last day of the claims that held longest */
    const struct claim *by; /* one of those: what it says about "endpoint", where it does */
};
/* Whether it is one; `out` is filled then. `switches` as with snapshot_rules_with(). */
bool snapshot_retired(const struct snapshot *s, const char *provider, const char *model,
                      const char *switches, const char *day, struct catalog_retired *out);

/* The claim for `p` that holds under the values of `asked`: a conditional one whose condition
 * holds, else the unconditional. For num_beams without a claim of its own the claim for
 * use_beam_search, where that says no. NULL: nobody says anything. */
const struct claim *rules_claim(const struct rules *r, enum param p, const struct sampling *asked);

/* From now on nobody says anything about `p` there: it counts as absent. */
void rules_forget(struct rules *r, enum param p);

/* ---- reading the catalog, for the command line and the API. NULL matches everything; `model` is a
 * model id; histories and disputed claims are given too, in the order of the sources. */
typedef bool catalog_claim_fn(const struct claim *c, void *ud); /* false: stop */
void snapshot_each(const struct snapshot *s, const char *provider, const char *model,
                   const char *param, catalog_claim_fn *fn, void *ud);

enum version_kind {
    VERSION_SHIPPED, /* exactly what sources held */
    VERSION_LOCAL    /* a shipped version and what was set on this machine */
};
const char *version_kind_name(enum version_kind k); /* "shipped" */
struct catalog_version {
    int64_t number, parent; /* parent 0: the first */
    int64_t base;           /* the shipped version that it rests on; itself where it is one */
    enum version_kind kind;
    char hash[65], created[32], author[64], reason[256];
    int64_t n_claims, n_conflicts; /* merge conflicts that are open in it, see versions.h */
};
typedef bool catalog_version_fn(const struct catalog_version *v, void *ud);
CATALOG_WARN_UNUSED bool catalog_versions(struct catalog *c, catalog_version_fn *fn, void *ud,
                                          struct catalog_error *err);

/* The newest version that was there on `day` ("YYYY-MM-DD", or a longer ISO time): what was
 * believed then. CATALOG_NOT_FOUND: none is so old. */
CATALOG_WARN_UNUSED bool catalog_version_at(struct catalog *c, const char *day, int64_t *out,
                                            struct catalog_error *err);
/* Claims of one version without loading all of it: a few milliseconds for a provider, as long as a
 * snapshot for all. `claim` lives until the callback returns. Filters as with snapshot_each;
 * version 0 is the newest. */
CATALOG_WARN_UNUSED bool catalog_claims(struct catalog *c, int64_t version, const char *provider,
                                        const char *model, const char *param, catalog_claim_fn *fn,
                                        void *ud, struct catalog_error *err);
/* Whether `provider` and `param` (NULL: not asked) are names that the version knows (0: the newest;
 * CATALOG_ANY_VERSION: any did). CATALOG_NOT_FOUND: no; err->param says which of the two, the text
 * names the nearest one that is known. A parameter counts as known when any provider has it. */
#define CATALOG_ANY_VERSION (-1)
CATALOG_WARN_UNUSED bool catalog_check_names(struct catalog *c, int64_t version,
                                             const char *provider, const char *param,
                                             struct catalog_error *err);
/* The header row of a version; 0: of the newest. */
CATALOG_WARN_UNUSED bool catalog_get_version(struct catalog *c, int64_t number,
                                             struct catalog_version *out,
                                             struct catalog_error *err);
/* Whether a claim is about that day: not ended and not yet to come. Partial dates hold to the end
 * of what they name. */
bool claim_holds_on(const struct claim *c, const char *day);
/* A day of the calendar, "2026-11-30"; or that with a time, "2026-11-30T09:30", seconds and Z as
 * one likes. */
bool catalog_is_day(const char *text);
bool catalog_is_time(const char *text);

/* The number of the newest version; cheap, for whoever watches. */
CATALOG_WARN_UNUSED bool catalog_newest(struct catalog *c, int64_t *out, struct catalog_error *err);

#endif

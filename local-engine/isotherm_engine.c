/* isotherm_engine.c - the child of isothermd that owns the models: one socket, no network, no
 * files after the start.
 *
 * It reads files that somebody downloaded and text that anybody sent, so it gives up what it does
 * not need: new privileges, core files (they would hold prompts), and, once the models' files are
 * mapped, every system call but a few. Whatever it is talked into then, it can neither open a file
 * nor a socket nor start a program; a call outside the list kills it, and the daemon starts it
 * again.
 */
#include "engine.h"
#include "schedule.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The sanitizers' runtimes open and map what they like. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_FILTER 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define HAS_FILTER 0
#endif
#endif
#ifndef HAS_FILTER
#define HAS_FILTER 1
#endif

enum { THREADS_MAX = 256 };

static const char usage[] =
    "usage: isotherm-engine --fd N [options] NAME=FOLDER[OPTION]...\n"
    "Serves local models to isothermd over descriptor N; isothermd starts it.\n"
    "OPTION, in this order: ?template=NAME ?draft=FOLDER ?kv_type=f32|f16 ?kv_memory=BYTES\n"
    "  --fd N              the open socket to serve, usually 3\n"
    "  --threads N         0 to 256; 0, the default: one a core, at most 8\n"
    "  --memory-max N      bytes for all loaded models together; 0, the default: no limit\n"
    "  --known FILE        hashes of weights that need not be computed again\n"
    "  --speculation WORD  lookup, the default: tokens are guessed from what was said before; off\n"
    "  --version           print the version\n"
    "  --help              this text\n";

struct options {
    int fd;
    struct models_options models;
};

#if HAS_FILTER
#include <seccomp.h>

static const int allowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(close),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(restart_syscall),
    /* memory; mapping something executable is not among it, see below */
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(sysinfo), /* qsort() of more than 1 KiB asks how much memory there is */
    /* threads and signals, also of a failing assert */
    SCMP_SYS(futex),
    SCMP_SYS(sched_yield),
    SCMP_SYS(rseq), /* this and the next: a worker thread that starts late */
    SCMP_SYS(set_robust_list),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(tgkill),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getrandom),
};

static int allow_mappings(scmp_filter_ctx c)
{
    int rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return rc ? rc
              : seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* A model that is loaded later gets its worker threads then: threads of this process, nothing else
 * that clone() makes. The C library asks for clone3() first, whose flags a filter cannot see, and
 * takes "there is none" for an answer. */
static int allow_threads(scmp_filter_ctx c)
{
    int rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return rc ? rc
              : seccomp_rule_add(
                    c, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                    SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VFORK, CLONE_THREAD));
}

/* For all threads of the process. */
static bool enter_filter(struct engine_error *err)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!c) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the system call filter");
    }
    int rc = seccomp_attr_set(c, SCMP_FLTATR_CTL_TSYNC, 1);
    for (size_t i = 0; rc == 0 && i < sizeof allowed / sizeof *allowed; i++) {
        rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
    }
    rc = rc ? rc : allow_mappings(c);
    rc = rc ? rc : allow_threads(c);
    rc = rc ? rc : seccomp_load(c);
    seccomp_release(c);
    return rc == 0 || engine_fail(err, ENGINE_IO, "",
                                  "the system call filter cannot be installed: %s", strerror(-rc));
}
#else
static bool enter_filter(struct engine_error *err)
{
    (void)err;
    return true;
}
#endif

static bool parse_int(const char *text, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < 0 || n > max) {
        return false;
    }
    *out = n;
    return true;
}

static bool take_number(int c, const char *text, struct options *o)
{
    int64_t n;
    if (!parse_int(text, c == 'f' ? 1 << 20 : c == 't' ? THREADS_MAX : INT64_MAX, &n)) {
        return false;
    }
    if (c == 'm') {
        o->models.memory_max = n;
    } else {
        *(c == 'f' ? &o->fd : &o->models.engine.n_threads) = (int)n;
    }
    return true;
}

/* -1: go on; otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"fd", required_argument, NULL, 'f'},
        {"threads", required_argument, NULL, 't'},
        {"memory-max", required_argument, NULL, 'm'},
        {"known", required_argument, NULL, 'k'},
        {"speculation", required_argument, NULL, 's'},
        {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    *o = (struct options){.fd = -1};
    int c;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'f':
        case 't':
        case 'm':
            if (!take_number(c, optarg, o)) {
                (void)fprintf(stderr, "isotherm-engine: '%s' is not a number in range\n", optarg);
                return 2;
            }
            break;
        case 'k':
            o->models.engine.known = optarg;
            break;
        case 's':
            if (!engine_speculation_parse(optarg, &o->models.engine.speculation)) {
                (void)fprintf(stderr, "isotherm-engine: '%s': off or lookup expected\n", optarg);
                return 2;
            }
            break;
        case 'v':
            (void)printf("isotherm-engine %s\n", ENGINE_VERSION);
            return 0;
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            (void)fputs(usage, stderr);
            return 2;
        }
    }
    if (o->fd < 0) {
        (void)fputs("isotherm-engine: --fd is needed: isothermd starts this program\n", stderr);
        return 2;
    }
    return -1;
}

static void give_up_privileges(void)
{
    /* Each only makes a bad day better: none of them failing is a reason not to serve. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)signal(
        SIGINT, SIG_IGN); /* Ctrl-C on a terminal is for the daemon, which then closes the socket */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)mallopt(M_ARENA_MAX,
                  1); /* a second arena would look into /proc, which the filter forbids */
}

static bool serve(struct schedule *s, char **specs, struct engine_error *err)
{
    for (; *specs; specs++) {
        if (!schedule_add_model(s, *specs, err)) {
            return false;
        }
    }
    json_object_seed(0); /* reads /dev/urandom; the first object would do it, behind the filter */
    return enter_filter(err) && schedule_run(s, err);
}

int main(int argc, char **argv)
{
    struct options o;
    struct engine_error err = {.code = ENGINE_OK};
    int status = parse_options(argc, argv, &o);
    if (status >= 0) {
        return status;
    }
    give_up_privileges();
    struct schedule *s = NULL;
    bool ok = schedule_new(&s, o.fd, &o.models, &err) && serve(s, argv + optind, &err);
    if (!ok) {
        (void)fprintf(stderr, "<3>isotherm-engine: %s\n", err.text);
    }
    schedule_free(s);
    return ok ? 0 : 1;
}

/* spawn.c - fork and exec, because posix_spawn can neither set limits nor close what it does not
 * know. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child, between fork and exec: only calls that are safe after a fork of many threads. */
static _Noreturn void exec_child(int fd, char *const argv[])
{
    static char *const no_environment[] = {NULL};
    sigset_t none;
    struct rlimit no_core = {0, 0};
    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR); /* may become 3; then dup2 below replaces it */
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0) {
        _exit(126);
    }
    if (fd == SPAWN_FD ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, SPAWN_FD) < 0) {
        _exit(126);
    }
    if (close_range(SPAWN_FD + 1, ~0U, 0) != 0 || setrlimit(RLIMIT_CORE, &no_core) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        _exit(126);
    }
    (void)execve(argv[0], argv, no_environment);
    _exit(127);
}

static bool start_failed(struct failure *f, const char *what, int err)
{
    return failure_set(f, 503, "engine_restarting", NULL,
                       "the local engine cannot be started: %s: %s", what, strerror(err));
}

bool spawn_start(char *const argv[], struct spawned *out, struct failure *f)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        return start_failed(f, "socketpair", errno);
    }
    pid_t pid = fork();
    if (pid == 0) {
        exec_child(fds[1], argv);
    }
    int err = errno;
    (void)close(fds[1]);
    if (pid < 0) {
        (void)close(fds[0]);
        return start_failed(f, "fork", err);
    }
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself; Linux 5.3 */
    if (pidfd < 0) {
        err = errno;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        (void)close(fds[0]);
        return start_failed(f, "pidfd_open", err);
    }
    *out = (struct spawned){.pid = pid, .pidfd = pidfd, .fd = fds[0]};
    return true;
}

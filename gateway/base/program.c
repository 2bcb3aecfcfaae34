/* program.c - see program.h. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void program_hold_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            (void)!open("/dev/null", O_RDONLY); /* the lowest free number: this one */
        }
    }
}

int program_bad_option(const char *name, int c, char *const *argv)
{
    const char *word = argv[optind - 1];
    const char letter[] = {'-', (char)optopt, '\0'};
    bool is_letter = strncmp(word, "--", 2) != 0 && optopt > ' ' && optopt < 0x7f;
    (void)fprintf(stderr, "%s: %s '%s'%s: see %s --help\n", name,
                  c == ':' ? "option" : "unknown option", is_letter ? letter : word,
                  c == ':' ? " needs a value" : "", name);
    return 2;
}

int program_end(const char *name, int status)
{
    errno = 0;
    bool ok = fflush(stdout) == 0 && !ferror(stdout);
    if (ok || status) {
        return status; /* a failure has been told already */
    }
    if (!errno && putchar('\n') == '\n') { /* it failed earlier, nothing was left: asked why */
        (void)fflush(stdout);
    }
    (void)fprintf(stderr, "%s: standard output cannot be written: %s\n", name,
                  strerror(errno ? errno : EIO));
    return 1;
}

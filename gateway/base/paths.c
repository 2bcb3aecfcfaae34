/* paths.c - see paths.h. */
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool paths_find(const char *name, char *out, size_t cap)
{
    static const char *const folders[] = {"", "../share/isotherm/", "../libexec/isotherm/"};
    char exe[3000];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash = NULL;
    if (n > 0) {
        exe[n] = '\0';
        slash = strrchr(exe, '/');
    }
    if (!slash) {
        (void)snprintf(out, cap, "%s", name);
        return access(out, R_OK) == 0;
    }
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        (void)snprintf(out, cap, "%s%s%s", exe, folders[i], name);
        if (access(out, R_OK) == 0) {
            return true;
        }
    }
    (void)snprintf(out, cap, "%s%s", exe, name);
    return false;
}

void paths_state(const char *name, char *out, size_t cap)
{
    const char *systemd = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    if (systemd && systemd[0]) {
        (void)snprintf(out, cap, "%.*s/%s", (int)strcspn(systemd, ":"), systemd, name);
    } else if (xdg && xdg[0]) {
        (void)snprintf(out, cap, "%s/isotherm/%s", xdg, name);
    } else if (home && home[0]) {
        (void)snprintf(out, cap, "%s/.local/state/isotherm/%s", home, name);
    } else { /* a service that another init started: where systemd would have it */
        (void)snprintf(out, cap, "/var/lib/isotherm/%s", name);
    }
}

bool paths_make_folders(const char *path, unsigned mode)
{
    char dir[PATH_MAX];
    if ((size_t)snprintf(dir, sizeof dir, "%s", path) >= sizeof dir) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(dir, (mode_t)mode) != 0 && errno != EEXIST) {
            int why = errno;
            struct stat st;
            if (stat(dir, &st) != 0) { /* a folder above that is there but read-only is no error */
                errno = why;
                return false;
            }
        }
        *p = '/';
    }
    return true;
}

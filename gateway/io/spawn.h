/* spawn.h - a child process that gets nothing but a socket: what isotherm-engine is started with.
 *
 * Its environment is empty, descriptor 3 is its end of the socket, 0 and 1 are /dev/null, 2 is
 * ours, nothing else is open; it leads a session of its own (a signal of the terminal does not
 * reach it), leaves no core file and gains no privileges.
 */
#ifndef ISOTHERM_SPAWN_H
#define ISOTHERM_SPAWN_H

#include "gateway/base/failure.h"

#define SPAWN_FD 3 /* the child's end */

struct spawned {
    int pid;
    int pidfd; /* readable when it has ended; then waitpid(pid) */
    int fd;    /* our end, non-blocking; all three are the caller's to close and reap */
};

/* argv[0] is the program's path. A program that cannot be run ends with status 127, one whose
 * bareness cannot be had with 126. */
bool spawn_start(char *const argv[], struct spawned *out, struct failure *f)
    __attribute__((warn_unused_result));

#endif

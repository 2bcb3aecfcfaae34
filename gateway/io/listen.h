/* listen.h - listening sockets, ready for a loop: non-blocking, closed on exec. Private to
   server.c. */
#ifndef ISOTHERM_LISTEN_H
#define ISOTHERM_LISTEN_H

#include "gateway/base/failure.h"

/* "127.0.0.1:4117", "[::1]:0", "localhost:80". is_shared: other sockets may listen on the same
 * port (SO_REUSEPORT). *port 0: the one in `address`; else that one instead. On return *port is
 * the actual port. -1: failure. The descriptor is yours. */
int listen_tcp(const char *address, bool is_shared, unsigned *port, struct failure *f);
/* Mode 0660. A socket left behind by a dead process is replaced; one that answers is not. -1:
   failure. Yours, and so is the file. */
int listen_unix(const char *path, struct failure *f);

#endif

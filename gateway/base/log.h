/* log.h - key=value lines on stderr with the journal's level prefix. For mains, io, exchange and
 * api only.
 *
 * Prompts, answers and keys never appear. A value is quoted when it holds spaces or quotes; control
 * bytes are escaped.
 */
#ifndef ISOTHERM_LOG_H
#define ISOTHERM_LOG_H

enum log_level { LOG_ERROR = 3, LOG_WARNING = 4, LOG_INFO = 6, LOG_DEBUG = 7 };
void log_init(enum log_level least);
/* keys and values in pairs, ended by NULL: log_write(LOG_INFO, "listening", "address", a, NULL).
   One line, one write. */
void log_write(enum log_level level, const char *event, ...) __attribute__((sentinel));

#endif

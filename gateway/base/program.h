/* program.h - what the main functions of isothermd and isothermctl share: descriptors, wrong
 * options, the end of the output. */
#ifndef ISOTHERM_PROGRAM_H
#define ISOTHERM_PROGRAM_H

/* First of all in main(): a program that was started with standard input, output or error closed
 * must not get a socket or a database under that number. What was closed reads as empty and refuses
 * to be written. */
void program_hold_descriptors(void);

/* One line about what getopt_long() refused (opterr 0; `c` is its '?' or, with an option string
 * that begins with ':', its ':'). `name` is the program, with its verb. Returns 2, the exit status.
 */
int program_bad_option(const char *name, int c, char *const *argv);

/* The exit status of main(): `status`, or 1 and a line on standard error where standard output
 * could not take what was written to it. */
int program_end(const char *name, int status);

#endif

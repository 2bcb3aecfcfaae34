/* ctl_generate.h - isothermctl generate: text from a local model, without a daemon. */
#ifndef ISOTHERM_CTL_GENERATE_H
#define ISOTHERM_CTL_GENERATE_H

#include "local-engine/engine_error.h"

/* argv[0] is the verb. The exit status: 0 done, 1 failed, 2 usage. */
int ctl_generate(int argc, char **argv);

/* The folder or file behind a -m option: "local" is the model that came with the program. `path`
 * has PATH_MAX bytes. Whether it is a model is the engine's to say. */
bool ctl_generate_find_model(const char *name, char *path, struct engine_error *err);

#endif

/* ctl_model.h - isothermctl model: fetching a model, what its files hold, whether they are whole,
 * and other forms of them. */
#ifndef ISOTHERM_CTL_MODEL_H
#define ISOTHERM_CTL_MODEL_H

/* argv[0] is the verb. Returns the exit status: 0 done, 1 the model is damaged or the work failed,
 * 2 usage. */
int ctl_model(int argc, char **argv);

/* Its own verbs, a file each. */
int ctl_model_pull(int argc, char **argv); /* 130: interrupted */
int ctl_model_info(int argc, char **argv);
int ctl_model_verify(int argc, char **argv);
int ctl_model_quantize(int argc, char **argv);

#endif

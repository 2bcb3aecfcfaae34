/* probe_stat.c - two samples of answers: does the parameter work. The derivation is at the top of
 * probe.c; here are its three formulas.
 *
 * Everything is exact or an upper bound, and finite: no normal approximation holds at 1e-5 with
 * eight answers. */
#include "probe_inside.h"

#include <math.h>
#include <string.h>

/* The numbers of answers at each setting after which they are judged. Each look may err, so each
 * has its share of PROBE_ALPHA. */
static const unsigned looks[] = {8, 12, 16, PROBE_REPEATS_MAX};
#define N_LOOKS (sizeof looks / sizeof looks[0])
/* Answers that differ prove nothing where they differ clearly less than at the other setting: the
 * parameter works then, and the provider is less exact than PROBE_NOISE supposes. */
#define LESS_SPREAD 0.05

bool probe_stat_is_look(unsigned n)
{
    for (size_t i = 0; i < N_LOOKS; i++) {
        if (looks[i] == n) {
            return true;
        }
    }
    return false;
}

static double log_choose(unsigned n, unsigned k)
{
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
}

double probe_stat_binomial_tail(unsigned n, double p, unsigned k)
{
    double sum = 0;
    for (unsigned i = k; i <= n; i++) {
        sum += exp(log_choose(n, i) + i * log(p) + (n - i) * log1p(-p));
    }
    return k == 0 || sum > 1 ? 1 : sum;
}

double probe_stat_hyper_tail(unsigned n, unsigned marked, unsigned drawn, unsigned k)
{
    double sum = 0;
    unsigned most = marked < drawn ? marked : drawn;
    for (unsigned i = k; i <= most; i++) {
        if (drawn - i <= n - marked) {
            sum += exp(log_choose(marked, i) + log_choose(n - marked, drawn - i) -
                       log_choose(n, drawn));
        }
    }
    return sum > 1 ? 1 : sum;
}

static unsigned count(const char (*list)[64], unsigned n, const char *text)
{
    unsigned found = 0;
    for (unsigned i = 0; i < n; i++) {
        found += strcmp(list[i], text) == 0;
    }
    return found;
}

/* How often the commonest of the sharp answers came. */
static unsigned commonest(const struct probe_samples *s)
{
    unsigned most = 0;
    for (unsigned i = 0; i < s->n_sharp; i++) {
        unsigned n = count(s->sharp, s->n_sharp, s->sharp[i]);
        most = n > most ? n : most;
    }
    return most;
}

static bool is_first(const char (*list)[64], unsigned i)
{
    return count(list, i, list[i]) == 0;
}

/* The chance that some answer is among the sharp ones `most` times, were both settings the same:
 * the sum over all answers of the chance of each. */
static double chance_of_concentration(const struct probe_samples *s, unsigned most)
{
    double sum = 0;
    unsigned n = s->n_sharp + s->n_flat;
    for (unsigned i = 0; i < n; i++) {
        bool is_sharp = i < s->n_sharp;
        const char *text = is_sharp ? s->sharp[i] : s->flat[i - s->n_sharp];
        bool is_new =
            is_sharp ? is_first(s->sharp, i)
                     : is_first(s->flat, i - s->n_sharp) && count(s->sharp, s->n_sharp, text) == 0;
        unsigned both = count(s->sharp, s->n_sharp, text) + count(s->flat, s->n_flat, text);
        if (is_new && both >= most) {
            sum += probe_stat_hyper_tail(n, both, s->n_sharp, most);
        }
    }
    return sum > 1 ? 1 : sum;
}

enum probe_effect probe_stat_judge(const struct probe_samples *s, double *error)
{
    double share = PROBE_ALPHA / N_LOOKS;
    double changed = 1 - pow(1 - PROBE_NOISE, PROBE_ANSWER_TOKENS); /* answers, not tokens */
    unsigned most = commonest(s);
    double by_chance = chance_of_concentration(s, most);
    double by_noise = probe_stat_binomial_tail(s->n_sharp, changed, s->n_sharp - most);
    *error = 1;
    if (by_chance < share) {
        *error = by_chance * N_LOOKS;
        return PROBE_HAS_EFFECT;
    }
    if (by_noise < share && by_chance >= LESS_SPREAD) {
        *error = by_noise * N_LOOKS;
        return PROBE_NO_EFFECT;
    }
    return PROBE_UNKNOWN;
}

/* momentum.c - a table rule of one's own: SGD with momentum.
 *
 *   v = momentum * v + g;  w = w - rate * v
 *
 *   cc -O2 -fPIC -shared -o momentum.so momentum.c $(pkg-config --cflags psrt)
 *
 * and in tables.yaml:
 *
 *   - {name: w, dim: 1, rule: ./momentum.so, params: {rate: 0.05, momentum: 0.9}}
 *
 * docs/extending.md goes through it line by line. */
#include <psrt_rule.h>
#include <stdio.h>

struct momentum {
	float rate, momentum;
	size_t dim;
};

static int open_rule(const psrt_rule_config *config, void **rule, uint32_t *state_floats, char *why, size_t why_bytes)
{
	int bad = 0;
	double rate = psrt_rule_param(config->params, "rate", 0.01, &bad);
	double momentum = psrt_rule_param(config->params, "momentum", 0.9, &bad);
	if (bad || !(rate > 0) || !(momentum >= 0 && momentum < 1)) {
		snprintf(why, why_bytes, "rate %g and momentum %g: want rate above 0, momentum from 0 to below 1", rate, momentum);
		return 1;
	}
	struct momentum *m = malloc(sizeof *m);
	if (!m) {
		snprintf(why, why_bytes, "out of memory");
		return 1;
	}
	m->rate = (float)rate;
	m->momentum = (float)momentum;
	m->dim = config->dim;
	*rule = m;
	*state_floats = config->dim; /* v, one float for each weight */
	return 0;
}

static void close_rule(void *rule)
{
	free(rule);
}

static void apply(void *rule, float *const *rows, const float *const *grads, size_t n)
{
	const struct momentum *m = rule;
	for (size_t i = 0; i < n; i++) {
		float *w = rows[i], *v = rows[i] + m->dim;
		const float *g = grads[i];
		for (size_t j = 0; j < m->dim; j++) {
			v[j] = m->momentum * v[j] + g[j];
			w[j] = w[j] - m->rate * v[j];
		}
	}
}

const psrt_rule_ops *psrt_rule_get(void)
{
	static const psrt_rule_ops ops = {
		.size = sizeof ops, .abi = PSRT_RULE_ABI, .name = "momentum",
		.open = open_rule, .close = close_rule, .apply = apply, /* no init: v begins at 0 */
	};
	return &ops;
}

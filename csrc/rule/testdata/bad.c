/* One library for every way of being wrong, chosen at compile time. */
#include <psrt_rule.h>
#include <stdio.h>

static unsigned calls;

static int open_rule(const psrt_rule_config *c, void **rule, uint32_t *state, char *why, size_t room)
{
	int bad = 0;
	double rate = psrt_rule_param(c->params, "rate", 1, &bad);
	(void)rule;
#ifdef SILENT
	return 1;
#endif
	if (bad) {
		snprintf(why, room, "rate is no number");
		return 1;
	}
	*state = (uint32_t)rate;
#ifdef HUGE_STATE
	*state = 1u << 20;
#endif
	return 0;
}

static void close_rule(void *rule) { (void)rule; }

static void apply(void *rule, float *const *rows, const float *const *grads, size_t n)
{
	(void)rule;
	for (size_t i = 0; i < n; i++) {
		rows[i][0] += grads[i][0];
#ifdef BEYOND
		rows[i][9] = 1; /* dim 4, state 1 */
#endif
#ifdef COUNTS
		rows[i][0] += (float)++calls;
#endif
#ifdef BATCHED
		rows[i][0] += (float)n;
#endif
	}
}

#ifdef NO_SYMBOL
#define psrt_rule_get no_such
const psrt_rule_ops *no_such(void);
#endif
const psrt_rule_ops *psrt_rule_get(void)
{
	static psrt_rule_ops ops = {sizeof ops, PSRT_RULE_ABI, 0, 0, "bad-rule", open_rule, close_rule, NULL, apply};
#ifdef RETURNS_NULL
	return NULL;
#endif
#ifdef OTHER_ABI
	ops.abi = 9;
#endif
#ifdef SHORT
	ops.size = 16;
#endif
#ifdef FLAGS
	ops.flags = 0x80;
#endif
#ifdef NAME
	ops.name = "Bad Rule";
#endif
#ifdef NO_APPLY
	ops.apply = NULL;
#endif
	(void)calls;
	return &ops;
}

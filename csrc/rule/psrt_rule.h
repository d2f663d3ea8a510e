/* psrt_rule.h - the interface of a table rule of your own.
 *
 * A rule says how a row changes when something is pushed to it: an optimizer, a
 * counter, whatever is a function of the row and of what is pushed. Compile it as
 * a shared library that exports psrt_rule_get, and name the file in tables.yaml:
 *
 *   cc -O2 -fPIC -shared -o momentum.so momentum.c $(pkg-config --cflags psrt)
 *
 *   tables:
 *     - name: user
 *       dim: 16
 *       rule: ./momentum.so          # beside tables.yaml
 *       params: {rate: 0.05, momentum: 0.9}
 *
 * A ROW is dim weights, then the rule's state_floats floats of state, one array.
 *
 * WHAT IS PROMISED TO THE RULE. Every instance (open) is used by one thread at a
 * time, not always the same; several instances are used at once. Gradients are
 * finite. A row may come twice in a call: treat them in order. Nothing is called
 * after close.
 *
 * WHAT THE RULE PROMISES. A row's result depends on that row, its key (init) and
 * its gradient alone: not on other rows of the call, their number, their order,
 * the time, or what was called before. psrt relies on it: the same pushes then
 * give the same model with any number of servers. It writes rows and nothing
 * else, never ends the process, never blocks. psrt tries the rule when it loads it
 * and refuses one that does not keep these promises there.
 *
 * VERSIONS. Structs grow at their end only; `size` tells what the other side knows.
 */
#ifndef PSRT_RULE_H
#define PSRT_RULE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSRT_RULE_ABI 1u

/* The rule must see every push of a row by itself, in order. Without it pushes of
 * one row that are at hand together are added up first, which is faster and what
 * an optimizer wants. */
#define PSRT_RULE_ORDERED 1u

/* What an instance is opened for. */
typedef struct psrt_rule_config {
	uint32_t size;      /* sizeof(psrt_rule_config) of the server */
	uint32_t dim;       /* weights of a row */
	const char *params; /* lines "name=value", sorted by name; valid during open */
} psrt_rule_config;

typedef struct psrt_rule_ops {
	uint32_t size;    /* sizeof(psrt_rule_ops) of the library */
	uint32_t abi;     /* PSRT_RULE_ABI */
	uint32_t flags;   /* PSRT_RULE_ORDERED */
	uint32_t reserved; /* 0 */
	const char *name; /* 1 to 31 of a-z 0-9 - _; part of what clients compare */

	/* open makes an instance, stored in *rule (which may stay NULL), and tells the
	 * floats of state behind a row's weights, at most 16384. It returns 0, or
	 * anything else with the reason in why: what is wrong, with which value. */
	int (*open)(const psrt_rule_config *config, void **rule, uint32_t *state_floats,
		    char *why, size_t why_bytes);
	void (*close)(void *rule);

	/* init is called for new rows: weights are drawn as the table says, the state
	 * is 0. It may be NULL where that is right. */
	void (*init)(void *rule, const uint64_t *keys, float *const *rows, size_t n);

	/* apply updates rows[i] by grads[i], dim floats, for i < n. */
	void (*apply)(void *rule, float *const *rows, const float *const *grads, size_t n);
} psrt_rule_ops;

/* The one symbol that the library exports. The answer lives as long as it. */
const psrt_rule_ops *psrt_rule_get(void);

/* psrt_rule_param reads a number of params: value where it is not there. *bad
 * becomes 1 where what stands there is no number, and is left alone else. */
static inline double psrt_rule_param(const char *params, const char *name, double value, int *bad)
{
	size_t n = strlen(name);
	const char *line = params;
	while (line && *line) {
		if (!strncmp(line, name, n) && line[n] == '=') {
			char *end;
			double v = strtod(line + n + 1, &end);
			if (end == line + n + 1 || (*end && *end != '\n'))
				*bad = 1;
			else
				value = v;
			break;
		}
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return value;
}

#ifdef __cplusplus
}
#endif

#endif

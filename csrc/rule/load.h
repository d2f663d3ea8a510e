#ifndef PSRT_RULE_LOAD_H
#define PSRT_RULE_LOAD_H

#include "psrt_rule.h"

/* An opened rule. */
typedef struct {
	void *library;
	const psrt_rule_ops *ops;
	void *rule;
	uint32_t dim, state;
} psrt_rule_instance;

/* Row i is the stride floats at bases[i >> shift] + (i mod 2^shift) * stride. */
typedef struct {
	uint64_t stride, count;
	uint32_t shift;
} psrt_rule_rows;

/* NULL on failure, with the reason in why. */
psrt_rule_instance *psrt_rule_load(const char *path, const char *params, uint32_t dim, char *why, size_t why_bytes);
void psrt_rule_unload(psrt_rule_instance *r);

/* Begins the n rows from first. */
void psrt_rule_begin(psrt_rule_instance *r, const uintptr_t *bases, const psrt_rule_rows *rows,
		     uint64_t first, const uint64_t *keys, int64_t n);

/* Applies grads to the rows of ids; gives how many were refused: not finite, or
 * no row. */
int64_t psrt_rule_update(psrt_rule_instance *r, const uintptr_t *bases, const psrt_rule_rows *rows,
			 const uint32_t *ids, int64_t n, const float *grads);

#endif

#include "load.h"
#include <dlfcn.h>
#include <stdio.h>

/* The members of version 1 end with apply. */
#define OPS_V1 (offsetof(psrt_rule_ops, apply) + sizeof(void *))

static int good_name(const char *s)
{
	size_t n = s ? strlen(s) : 0;
	if (n < 1 || n > 31)
		return 0;
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == n;
}

static int check(const psrt_rule_ops *o, char *why, size_t room)
{
	if (!o)
		snprintf(why, room, "psrt_rule_get returned NULL");
	else if (o->abi != PSRT_RULE_ABI)
		snprintf(why, room, "it was built for version %u of psrt_rule.h, this psrt knows %u: build it with the header of this psrt", o->abi, PSRT_RULE_ABI);
	else if (o->size < OPS_V1)
		snprintf(why, room, "its psrt_rule_ops says size %u, want at least %zu: set size to sizeof(psrt_rule_ops)", o->size, OPS_V1);
	else if (o->flags & ~PSRT_RULE_ORDERED)
		snprintf(why, room, "flags 0x%x, known is 0x%x", o->flags, PSRT_RULE_ORDERED);
	else if (!good_name(o->name))
		snprintf(why, room, "its name must be 1 to 31 of a-z, 0-9, - and _");
	else if (!o->open || !o->close || !o->apply)
		snprintf(why, room, "%s: open, close and apply must be set", o->name);
	else
		return 1;
	return 0;
}

psrt_rule_instance *psrt_rule_load(const char *path, const char *params, uint32_t dim, char *why, size_t room)
{
	why[0] = 0;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *e = dlerror();
		snprintf(why, room, "%s", e ? e : "dlopen failed");
		return NULL;
	}
	const psrt_rule_ops *(*get)(void) = (const psrt_rule_ops *(*)(void))dlsym(library, "psrt_rule_get");
	if (!get) {
		snprintf(why, room, "it exports no psrt_rule_get");
		goto fail;
	}
	const psrt_rule_ops *o = get();
	if (!check(o, why, room))
		goto fail;
	psrt_rule_config config = {sizeof config, dim, params};
	void *rule = NULL;
	uint32_t state = 0;
	if (o->open(&config, &rule, &state, why, room)) {
		why[room - 1] = 0;
		if (!why[0])
			snprintf(why, room, "%s: open failed and did not say why", o->name);
		goto fail;
	}
	psrt_rule_instance *r = malloc(sizeof *r);
	if (!r) {
		o->close(rule);
		snprintf(why, room, "out of memory");
		goto fail;
	}
	*r = (psrt_rule_instance){library, o, rule, dim, state};
	return r;
fail:
	dlclose(library);
	return NULL;
}

void psrt_rule_unload(psrt_rule_instance *r)
{
	r->ops->close(r->rule);
	dlclose(r->library);
	free(r);
}

static inline float *row_at(const uintptr_t *bases, const psrt_rule_rows *rows, uint64_t id)
{
	return (float *)bases[id >> rows->shift] + (id & (((uint64_t)1 << rows->shift) - 1)) * rows->stride;
}

static int finite(const float *g, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t b;
		memcpy(&b, g + i, sizeof b);
		if ((b & 0x7f800000u) == 0x7f800000u)
			return 0;
	}
	return 1;
}

/* Calls of at most so many rows: their addresses are on the stack. */
enum { BATCH = 256 };

void psrt_rule_begin(psrt_rule_instance *r, const uintptr_t *bases, const psrt_rule_rows *rows,
		     uint64_t first, const uint64_t *keys, int64_t n)
{
	float *row[BATCH];
	if (!r->ops->init)
		return;
	for (int64_t i = 0; i < n;) {
		size_t k = 0;
		for (; k < BATCH && i + (int64_t)k < n; k++)
			row[k] = row_at(bases, rows, first + i + k);
		r->ops->init(r->rule, keys + i, row, k);
		i += k;
	}
}

int64_t psrt_rule_update(psrt_rule_instance *r, const uintptr_t *bases, const psrt_rule_rows *rows,
			 const uint32_t *ids, int64_t n, const float *grads)
{
	float *row[BATCH];
	const float *grad[BATCH];
	int64_t refused = 0;
	size_t k = 0;
	for (int64_t i = 0; i < n; i++) {
		const float *g = grads + i * r->dim;
		if (ids[i] >= rows->count || !finite(g, r->dim)) {
			refused++;
			continue;
		}
		row[k] = row_at(bases, rows, ids[i]);
		grad[k] = g;
		if (++k == BATCH) {
			r->ops->apply(r->rule, row, grad, k);
			k = 0;
		}
	}
	if (k)
		r->ops->apply(r->rule, row, grad, k);
	return refused;
}

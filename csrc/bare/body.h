/* The loops that move floats, compiled once per instruction set: the including
 * file sets the target and NAME(x). */
#include <string.h>
#include "bare.h"
#include "place.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

typedef float v16 __attribute__((vector_size(64)));

/* Whole vectors, then the rest; rows need not be aligned. */
static inline void copy_row(float *dst, const float *src, int64_t n)
{
	v16 v;
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		memcpy(&v, src + i, sizeof v);
		memcpy(dst + i, &v, sizeof v);
	}
	for (; i < n; i++)
		dst[i] = src[i];
}

static inline void step(float *row, const float *g, int64_t n, float rate)
{
	v16 w, d;
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		memcpy(&w, row + i, sizeof w);
		memcpy(&d, g + i, sizeof d);
		d *= rate;
		w -= d;
		memcpy(row + i, &w, sizeof w);
	}
	for (; i < n; i++) {
		float d1 = rate * g[i];
		row[i] = row[i] - d1;
	}
}

/* Each key passes three stations: its slot is fetched, its row is fetched, its
 * row is copied. */
void NAME(pull)(const psrt_bare_table *t, const uint64_t *keys, int64_t n, int64_t dim, float *dst)
{
	const int64_t ahead = ahead_of(dim);
	uint32_t ring[RING];
	for (int64_t i = -ahead - SLOTS_AHEAD; i < n; i++) {
		int64_t far = i + ahead + SLOTS_AHEAD, near = i + ahead;
		if (far < n)
			__builtin_prefetch(slot_of(t, keys[far]));
		if (near >= 0 && near < n) {
			uint32_t id = resolve(t, keys[near]);
			ring[near % RING] = id;
			if (id != NO_ROW)
				fetch(t->rows + id * t->stride, dim, 0);
		}
		if (i < 0)
			continue;
		uint32_t id = ring[i % RING];
		if (id != NO_ROW)
			copy_row(dst + i * dim, t->rows + id * t->stride, dim);
		else
			memset(dst + i * dim, 0, dim * sizeof *dst);
	}
}

/* Every float of the row is read, changed and written, state as weights: a
 * row of stride floats gets its gradient as often as it fits. */
void NAME(update)(const psrt_bare_table *t, const uint32_t *ids, int64_t n, int64_t dim, const float *grads, float rate)
{
	const int64_t ahead = ahead_of(t->stride);
	for (int64_t i = -ahead; i < n; i++) {
		if (i + ahead < n && ids[i + ahead] < t->count)
			fetch(t->rows + ids[i + ahead] * t->stride, t->stride, 1);
		if (i < 0 || ids[i] >= t->count)
			continue;
		float *row = t->rows + ids[i] * t->stride;
		for (int64_t at = 0; at < t->stride; at += dim)
			step(row + at, grads + i * dim, t->stride - at < dim ? t->stride - at : dim, rate);
	}
}

/* The new rows lie behind those there are, so only slots are fetched. */
void NAME(insert)(const psrt_bare_table *t, const uint64_t *keys, int64_t n, uint32_t next, const float *values)
{
	for (int64_t i = -SLOTS_AHEAD; i < n; i++) {
		if (i + SLOTS_AHEAD < n)
			__builtin_prefetch(slot_of(t, keys[i + SLOTS_AHEAD]), 1);
		if (i < 0)
			continue;
		*slot_of(t, keys[i]) = (psrt_bare_slot){keys[i], next + (uint32_t)i, 0};
		copy_row(t->rows + (next + (uint64_t)i) * t->stride, values + i * t->stride, t->stride);
	}
}

/* The kernels, compiled once per instruction set: the including file sets the
 * target and NAME(x). Loops over elements are left to the vectoriser: every
 * operation in them is one IEEE operation per element, so the width does not
 * change a bit. Sums across elements use v16, sixteen fixed lanes, which the
 * compiler lowers to the target's registers. No contraction: -std=c11 turns it
 * off for GCC, the pragma for clang. */
#include <stdlib.h>
#include <string.h>
#include "kernels.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* Not <math.h>: declared free of errno, sqrtf becomes the CPU's instruction and
 * its loops become vectors (-fno-math-errno is no flag that cgo allows). */
float sqrtf(float) __attribute__((const));

typedef float v16 __attribute__((vector_size(64)));
typedef uint32_t bits32 __attribute__((may_alias));

#define CACHELINE 64

static inline float *row_at(const uintptr_t *bases, const psrt_rows *rows, uint32_t id)
{
	uint64_t in = id & (((uint64_t)1 << rows->shift) - 1);
	return (float *)bases[id >> rows->shift] + in * rows->stride;
}

/* Long rows: the hardware follows by itself after the first lines. */
static inline int64_t lines_of(int64_t floats)
{
	int64_t lines = (floats * 4 + CACHELINE - 1) / CACHELINE + 1; /* rows need not be aligned */
	return lines < 16 ? lines : 16;
}

static inline int64_t ahead_of(int64_t lines)
{
	return lines <= 2 ? 16 : lines <= 5 ? 8 : 4;
}

static inline int is_finite_row(const float *g, int64_t n)
{
	const bits32 *b = (const bits32 *)g;
	uint32_t bad = 0;
	for (int64_t i = 0; i < n; i++)
		bad |= (b[i] & 0x7f800000u) == 0x7f800000u;
	return !bad;
}

/* Always inlined: in place, the compiler must see that both weights are one. */
#define RULE inline __attribute__((always_inline)) void

static RULE sgd(const psrt_rule *r, float *o, const float *w, const float *restrict g, int64_t n)
{
	const float lr = r->lr, l2 = r->l2;
	for (int64_t i = 0; i < n; i++) {
		float d = g[i] + l2 * w[i];
		o[i] = w[i] - lr * d;
	}
}

static RULE adagrad(const psrt_rule *r, float *o, const float *w, float *restrict s, const float *restrict g, int64_t n)
{
	const float lr = r->lr, l2 = r->l2, eps = r->eps;
	for (int64_t i = 0; i < n; i++) {
		float d = g[i] + l2 * w[i];
		float a = s[i] + d * d;
		s[i] = a;
		o[i] = w[i] - (lr * d) / (sqrtf(a) + eps);
	}
}

/* The end of a sum in lanes: they are added in halves. */
static inline float sum_lanes(float *f)
{
	for (int h = 8; h > 0; h /= 2)
		for (int j = 0; j < h; j++)
			f[j] += f[j + h];
	return f[0];
}

/* Element i is added in lane i mod 16. */
static inline float sum_squares(float l2, const float *w, const float *g, int64_t n)
{
	v16 lane = {0}, a, b;
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		memcpy(&a, w + i, sizeof a);
		memcpy(&b, g + i, sizeof b);
		b = b + l2 * a;
		lane += b * b;
	}
	float f[16];
	memcpy(f, &lane, sizeof f);
	for (int j = 0; i < n; i++, j++) {
		float d = g[i] + l2 * w[i];
		f[j] += d * d;
	}
	return sum_lanes(f);
}

static inline float sum_plain(const float *g, int64_t n)
{
	v16 lane = {0}, a;
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		memcpy(&a, g + i, sizeof a);
		lane += a;
	}
	float f[16];
	memcpy(f, &lane, sizeof f);
	for (int j = 0; i < n; i++, j++)
		f[j] += g[i];
	return sum_lanes(f);
}

static RULE rowadagrad(const psrt_rule *r, float *o, const float *w, float *restrict s, const float *restrict g, int64_t n)
{
	const float l2 = r->l2;
	float a = s[0] + sum_squares(l2, w, g, n) / (float)n;
	s[0] = a;
	const float step = r->lr / (sqrtf(a) + r->eps);
	for (int64_t i = 0; i < n; i++) {
		float d = g[i] + l2 * w[i];
		o[i] = w[i] - step * d;
	}
}

static inline float power(float p)
{
	return p < 1e-30f ? 0.0f : p; /* else it would stick at a denormal for ever */
}

static RULE adam(const psrt_rule *r, float *o, const float *w, float *restrict m, float *restrict v, float *restrict p, const float *restrict g, int64_t n)
{
	const float beta1 = r->beta1, beta2 = r->beta2, eps = r->eps, l2 = r->l2;
	p[0] = power(p[0] * beta1);
	p[1] = power(p[1] * beta2);
	const float rate = r->lr / (1.0f - p[0]), scale = 1.0f / sqrtf(1.0f - p[1]);
	const float fresh1 = 1.0f - beta1, fresh2 = 1.0f - beta2;
	for (int64_t i = 0; i < n; i++) {
		float d = g[i] + l2 * w[i];
		float m1 = beta1 * m[i] + fresh1 * d;
		float v1 = beta2 * v[i] + (fresh2 * d) * d;
		m[i] = m1;
		v[i] = v1;
		o[i] = w[i] - (rate * m1) / (sqrtf(v1) * scale + eps);
	}
}

static RULE ftrl(const psrt_rule *r, float *o, const float *w, float *restrict z, float *restrict s, const float *restrict g, int64_t n)
{
	const float lr = r->lr, l1 = r->l1, l2 = r->l2, beta = r->beta;
	for (int64_t i = 0; i < n; i++) {
		float a = s[i] + g[i] * g[i];
		float root = sqrtf(a);
		float sigma = (root - sqrtf(s[i])) / lr;
		float z1 = z[i] + (g[i] - sigma * w[i]);
		/* By masks: a branch would keep the divisions out of vectors. */
		union { float f; uint32_t u; } next;
		next.f = (__builtin_copysignf(l1, z1) - z1) / ((beta + root) / lr + l2);
		next.u &= __builtin_fabsf(z1) <= l1 ? 0u : ~0u;
		z[i] = z1;
		s[i] = a;
		o[i] = next.f;
	}
}

static RULE ema(const psrt_rule *r, float *o, const float *w, const float *restrict g, int64_t n)
{
	const float m = r->lr, keep = 1.0f - r->lr;
	for (int64_t i = 0; i < n; i++)
		o[i] = keep * w[i] + m * g[i];
}

static RULE add(float *o, const float *w, const float *restrict g, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		o[i] = w[i] + g[i];
}

static RULE past_adagrad(const psrt_rule *r, float *o, const float *w, float *restrict s, const float *restrict g, int64_t n)
{
	const float step = r->lr * sqrtf(r->beta / (r->beta + s[0]));
	s[0] += sum_squares(0.0f, g, g, n) / (float)n;
	for (int64_t i = 0; i < n; i++)
		o[i] = w[i] - step * g[i];
}

static RULE past_adagrad_each(const psrt_rule *r, float *o, const float *w, float *restrict s, const float *restrict g, int64_t n)
{
	const float lr = r->lr, start = r->beta;
	for (int64_t i = 0; i < n; i++) {
		float step = lr * sqrtf(start / (start + s[i]));
		s[i] += g[i] * g[i];
		o[i] = w[i] - step * g[i];
	}
}

static RULE shared_adam(const psrt_rule *r, float *o, const float *w, float *restrict s, const float *restrict g, int64_t n)
{
	const float fresh1 = 1.0f - r->beta1, fresh2 = 1.0f - r->beta2, eps = r->eps;
	const float m = r->beta1 * s[0], v = r->beta2 * s[1];
	s[2] = power(s[2] * r->beta1);
	s[3] = power(s[3] * r->beta2);
	const float rate = r->lr / (1.0f - s[2]), scale = 1.0f / sqrtf(1.0f - s[3]);
	s[0] = m + fresh1 * (sum_plain(g, n) / (float)n); /* the mean of the moments below */
	s[1] = v + fresh2 * (sum_squares(0.0f, g, g, n) / (float)n);
	for (int64_t i = 0; i < n; i++) {
		float m1 = m + fresh1 * g[i];
		float v1 = v + (fresh2 * g[i]) * g[i];
		o[i] = w[i] - (rate * m1) / (sqrtf(v1) * scale + eps);
	}
}

/* The weights w become o, which lies apart or is w itself; the state s changes in place. */
static RULE update_row(const psrt_rule *r, float *o, const float *w, float *s, const float *g, int64_t dim)
{
	switch (r->kind) {
	case PSRT_SGD: sgd(r, o, w, g, dim); break;
	case PSRT_ADAGRAD: adagrad(r, o, w, s, g, dim); break;
	case PSRT_ROWADAGRAD: rowadagrad(r, o, w, s, g, dim); break;
	case PSRT_ADAM: adam(r, o, w, s, s + dim, s + 2 * dim, g, dim); break;
	case PSRT_FTRL: ftrl(r, o, w, s, s + dim, g, dim); break;
	case PSRT_EMA: ema(r, o, w, g, dim); break;
	case PSRT_ACCUMULATE: add(o, w, g, dim); break;
	case PSRT_ASSIGN: memcpy(o, g, (size_t)dim * sizeof *o); break;
	case PSRT_PAST_ADAGRAD: past_adagrad(r, o, w, s, g, dim); break;
	case PSRT_PAST_ADAGRAD_EACH: past_adagrad_each(r, o, w, s, g, dim); break;
	case PSRT_SHARED_ADAM: shared_adam(r, o, w, s, g, dim); break;
	}
}

int64_t NAME(update_into)(const psrt_rule *rule, int64_t n, float *o, const float *w, float *s, const float *g)
{
	const psrt_rule r = *rule;
	if (!is_finite_row(g, n))
		return 1;
	if (o == w)
		update_row(&r, o, o, s, g, n);
	else
		update_row(&r, o, w, s, g, n);
	return 0;
}

int64_t NAME(update)(const psrt_rule *rule, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *grads)
{
	const psrt_rule r = *rule;
	const int64_t lines = lines_of(rows->stride), ahead = ahead_of(lines);
	int64_t refused = 0;
	for (int64_t i = -ahead; i < n; i++) {
		if (i + ahead < n && ids[i + ahead] < rows->count) {
			const char *p = (const char *)row_at(bases, rows, ids[i + ahead]);
			for (int64_t l = 0; l < lines; l++)
				__builtin_prefetch(p + l * CACHELINE, 1);
		}
		if (i < 0)
			continue;
		const float *g = grads + i * dim;
		if (ids[i] >= rows->count || !is_finite_row(g, dim)) {
			refused++;
			continue;
		}
		float *w = row_at(bases, rows, ids[i]);
		update_row(&r, w, w, w + dim, g, dim);
	}
	return refused;
}

static inline void copy_floats(float *restrict d, const float *restrict s, int64_t n)
{
	int64_t i = 0;
	v16 a;
	for (; i + 16 <= n; i += 16) {
		memcpy(&a, s + i, sizeof a);
		memcpy(d + i, &a, sizeof a);
	}
	for (; i < n; i++)
		d[i] = s[i];
}

void NAME(gather)(float *dst, int64_t step, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n)
{
	const int64_t lines = lines_of(dim), ahead = ahead_of(lines);
	for (int64_t i = -ahead; i < n; i++) {
		if (i + ahead < n && ids[i + ahead] < rows->count) {
			const char *p = (const char *)row_at(bases, rows, ids[i + ahead]);
			const char *end = p + dim * 4;
			p = (const char *)((uintptr_t)p & ~(uintptr_t)(CACHELINE - 1));
			if (end - p > 16 * CACHELINE)
				end = p + 16 * CACHELINE;
			for (; p < end; p += CACHELINE)
				__builtin_prefetch(p);
		}
		if (i < 0)
			continue;
		if (ids[i] < rows->count)
			copy_floats(dst + i * step, row_at(bases, rows, ids[i]), dim);
		else
			memset(dst + i * step, 0, dim * sizeof *dst);
	}
}

#include "body_parts.h"
#include "body_sum.h"

/* The fold, compiled once per instruction set: the including file sets the
 * target, NAME(x), and where it has them STREAM and the half-float conversions.
 * Loops over elements are left to the vectoriser: every operation in them is one
 * IEEE operation per element, so the width does not change a bit. A destination
 * may be one of the operands, element by element, which is what ivdep says. */
#include <stdlib.h>
#include <string.h>
#include "fold.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define SAME_PLACE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SAME_PLACE _Pragma("GCC ivdep")
#endif

typedef void combine(void *o, const void *a, const void *b, int64_t n);
typedef void divide(void *o, const void *a, int64_t by, int64_t n);

#define LOOP(name, T, W, expr)                                                          \
	static void name(void *vo, const void *va, const void *vb, int64_t n)           \
	{                                                                               \
		T *o = vo;                                                              \
		const T *pa = va, *pb = vb;                                             \
		SAME_PLACE                                                              \
		for (int64_t i = 0; i < n; i++) {                                       \
			W a = pa[i], b = pb[i];                                         \
			o[i] = (T)(expr);                                               \
		}                                                                       \
	}

#define DIVIDE(T)                                                                       \
	static void divide_##T(void *vo, const void *va, int64_t by, int64_t n)         \
	{                                                                               \
		T *o = vo, d = (T)by;                                                   \
		const T *a = va;                                                        \
		SAME_PLACE                                                              \
		for (int64_t i = 0; i < n; i++)                                         \
			o[i] = a[i] / d;                                                \
	}

/* W is what sums and products are made in: unsigned, so that they wrap. */
#define TYPE(T, W)                                                                      \
	LOOP(sum_##T, T, W, a + b)                                                      \
	LOOP(prod_##T, T, W, a * b)                                                     \
	LOOP(min_##T, T, T, b < a ? b : a)                                              \
	LOOP(max_##T, T, T, b > a ? b : a)

TYPE(int8_t, uint32_t)
TYPE(uint8_t, uint32_t)
TYPE(int32_t, uint32_t)
TYPE(uint32_t, uint32_t)
TYPE(int64_t, uint64_t)
TYPE(uint64_t, uint64_t)
TYPE(float, float)
TYPE(double, double)
DIVIDE(int32_t)
DIVIDE(uint32_t)
DIVIDE(int64_t)
DIVIDE(uint64_t)
DIVIDE(float)
DIVIDE(double)

/* A divisor need not fit these. */
#define DIVIDE_SMALL(T)                                                                 \
	static void divide_##T(void *vo, const void *va, int64_t by, int64_t n)         \
	{                                                                               \
		T *o = vo;                                                              \
		const T *a = va;                                                        \
		for (int64_t i = 0; i < n; i++)                                         \
			o[i] = (T)(a[i] / (int32_t)by);                                 \
	}
DIVIDE_SMALL(int8_t)
DIVIDE_SMALL(uint8_t)

static inline float of_bits(uint32_t b)
{
	float f;
	memcpy(&f, &b, sizeof f);
	return f;
}

static inline uint32_t to_bits(float f)
{
	uint32_t b;
	memcpy(&b, &f, sizeof b);
	return b;
}

static inline float from_bf16(uint16_t h)
{
	return of_bits((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float f)
{
	uint32_t b = to_bits(f);
	uint16_t nan = (uint16_t)(b >> 16) | 0x40, near = (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
	return (b & 0x7fffffff) > 0x7f800000 ? nan : near;
}

/* Half floats by integer arithmetic. 0x1p112 moves the exponent's bias; the
 * product is exact, for what was denormal too. */
static inline float from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
	uint32_t special = rest | 0x7f800000; /* infinity and NaN */
	uint32_t plain = to_bits(of_bits(rest) * 0x1p112f);
	return of_bits(sign | (rest >= 0x0f800000 ? special : plain));
}

static inline uint16_t to_f16(float f)
{
	uint32_t b = to_bits(f), sign = b >> 16 & 0x8000, rest = b & 0x7fffffff;
	uint32_t small = to_bits(of_bits(rest) + 0.5f) - 0x3f000000; /* the sum rounds to the denormal's last place */
	uint32_t plain = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
	uint32_t h = rest < 0x38800000 ? small : plain;
	h = rest >= 0x477ff000 ? 0x7c00 : h;
	h = rest > 0x7f800000 ? (0x7e00 | (rest >> 13 & 0x1ff)) : h;
	return (uint16_t)(sign | h);
}

#define HALF_LOOP(name, H, expr)                                                        \
	static void name##_##H(void *vo, const void *va, const void *vb, int64_t n)     \
	{                                                                               \
		uint16_t *o = vo;                                                       \
		const uint16_t *pa = va, *pb = vb;                                      \
		int64_t i = 0;                                                          \
		WIDE_##H(WIDE_##expr)                                                   \
		SAME_PLACE                                                              \
		for (; i < n; i++) {                                                    \
			float a = from_##H(pa[i]), b = from_##H(pb[i]);                 \
			o[i] = to_##H(PLAIN_##expr);                                    \
		}                                                                       \
	}
#define PLAIN_SUM a + b
#define PLAIN_PROD a * b
#define PLAIN_MIN b < a ? b : a
#define PLAIN_MAX b > a ? b : a

/* bf16 vectorises by itself; f16 has instructions of its own where WIDTH is set. */
#define WIDE_bf16(expr)
#if defined(WIDTH)
#define WIDE_f16(expr)                                                                  \
	for (; i + WIDTH <= n; i += WIDTH) {                                            \
		wide a = widen(pa + i), b = widen(pb + i);                              \
		narrow(o + i, expr);                                                    \
	}
#else
#define WIDE_f16(expr)
#endif

#define HALF(H)                                                                         \
	HALF_LOOP(sum, H, SUM)                                                          \
	HALF_LOOP(prod, H, PROD)                                                        \
	HALF_LOOP(min, H, MIN)                                                          \
	HALF_LOOP(max, H, MAX)                                                          \
	static void divide_##H(void *vo, const void *va, int64_t by, int64_t n)         \
	{                                                                               \
		uint16_t *o = vo;                                                       \
		const uint16_t *a = va;                                                 \
		float d = (float)by;                                                    \
		SAME_PLACE                                                              \
		for (int64_t i = 0; i < n; i++)                                         \
			o[i] = to_##H(from_##H(a[i]) / d);                              \
	}
HALF(f16)
HALF(bf16)

#define FOUR(T) {sum_##T, prod_##T, min_##T, max_##T}
static combine *const combines[PSRT_FOLD_TYPES][PSRT_FOLD_OPS] = {
	FOUR(int8_t), FOUR(uint8_t), FOUR(int32_t), FOUR(uint32_t), FOUR(int64_t), FOUR(uint64_t), FOUR(f16), FOUR(bf16), FOUR(float), FOUR(double),
};
static divide *const divides[PSRT_FOLD_TYPES] = {
	divide_int8_t, divide_uint8_t, divide_int32_t, divide_uint32_t, divide_int64_t, divide_uint64_t, divide_f16, divide_bf16, divide_float, divide_double,
};
static const int sizes[PSRT_FOLD_TYPES] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8};

enum { TILE = 4096, LINE = 64 };

static void put(char *to, const char *from, int64_t n, int past)
{
#if defined(STREAM)
	if (past) {
		int64_t head = -(uintptr_t)to & (LINE - 1);
		if (head > n)
			head = n;
		memcpy(to, from, head);
		int64_t i = head;
		for (; i + LINE <= n; i += LINE)
			STREAM(to + i, from + i);
		memcpy(to + i, from + i, n - i);
		return;
	}
#else
	(void)past;
#endif
	memcpy(to, from, n);
}

int32_t NAME(fold)(const psrt_fold_job *j, const uintptr_t *dsts, const uintptr_t *srcs, const psrt_fold_merge *steps)
{
	combine *f = combines[j->type][j->op];
	int64_t size = sizes[j->type];
	char *own = aligned_alloc(LINE, (size_t)(j->nsrcs + 1) * TILE);
	const char **x = malloc((size_t)j->nsrcs * sizeof *x);
	if (!own || !x) {
		free(own);
		free(x);
		return -1;
	}
	int direct = j->nsteps > 0 && !j->past && j->divide < 2;
	for (int64_t at = 0; at < j->bytes; at += TILE) {
		int64_t n = j->bytes - at < TILE ? j->bytes - at : TILE;
		for (int64_t i = 0; i < j->nsrcs; i++)
			x[i] = (const char *)srcs[i] + at;
		for (int64_t k = 0; k < j->nsteps; k++) {
			int32_t d = steps[k].dst;
			char *to = direct && k == j->nsteps - 1 && d == j->root ? (char *)dsts[0] + at : own + (int64_t)d * TILE;
			f(to, x[d], x[steps[k].src], n / size);
			x[d] = to;
		}
		const char *r = x[j->root];
		if (j->divide > 1) {
			char *to = own + j->nsrcs * TILE;
			divides[j->type](to, r, j->divide, n / size);
			r = to;
		}
		for (int64_t i = 0; i < j->ndsts; i++)
			if (r != (char *)dsts[i] + at)
				put((char *)dsts[i] + at, r, n, j->past);
	}
#if defined(STREAM)
	if (j->past)
		STREAM_END();
#endif
	free(own);
	free(x);
	return 0;
}

/* The codecs, compiled once per instruction set: the including file sets the target,
 * NAME(x) and the few operations on one vector of LANES floats. Nothing here depends
 * on an order of additions: a group's greatest magnitude is an integer's maximum, and
 * all else is one IEEE operation per element. So every form gives the same bits.
 *
 * Floats go through a piece of the cache at a time: the greatest magnitudes of its
 * groups, their scales, the codes. With stream what is made goes around the caches,
 * from registers where they make whole lines of it, else from a small buffer: long outputs would only push out what is wanted, and a store
 * that reads its line first costs a third of the bandwidth. */
#include <string.h>
#include "codec.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define PIECE 1024 /* floats, or one group if that is longer */
#define PIECE_GROUPS 256
#define OUT PSRT_MAX_WIDTH

/* What the next piece reads is asked for while this one is worked on: else memory
 * rests at every second pass, and at the ends of pages. To the first cache alone: what
 * goes through the others pushes out lines that have to be written back. */
#define AHEAD(p) __builtin_prefetch((const char *)(p), 0, 0)

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* How many groups are taken at once: whole ones. */
static inline int64_t piece_groups(int64_t width)
{
	int64_t g = PIECE / width;
	return g > PIECE_GROUPS ? PIECE_GROUPS : g < 1 ? 1 : g;
}

static inline float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static inline uint32_t bits_of_float(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, 4);
	return bits;
}

/* out goes to to, of which only the first part may be off the lines of the cache. */
static void put(char *restrict to, const char *restrict out, int64_t n, int stream)
{
	if (stream) {
		int64_t head = min64(n, -(intptr_t)to & 63);
		memcpy(to, out, head);
		to += head, out += head, n -= head;
		for (; n >= 64; n -= 64, to += 64, out += 64)
			stream_line(to, out);
	}
	memcpy(to, out, n);
}

/* ahead asks for n bytes at p. */
static inline void ahead(const void *p, int64_t n)
{
	for (int64_t i = 0; i < n; i += 64)
		AHEAD((const char *)p + i);
}

/* A form may have quicker ways of its own for whole groups of some widths: each says
 * whether it has done it. Codes of a stream are on the lines of the cache. */
#ifndef ROWS
#define halves_rows(...) 0
#define bytes_rows(...) 0
#define unhalves_rows(...) 0
#define unbytes_rows(...) 0
#endif

static void peaks_of(uint32_t *restrict peaks, const float *restrict src, int64_t n, int64_t width)
{
	if (n % width == 0 && peaks_rows(peaks, src, n, width))
		return;
	for (; n > 0; n -= width, src += width) {
		int64_t w = min64(n, width), i = 0;
		ivec m = izero();
		for (; i + LANES <= w; i += LANES)
			m = imax(m, magnitude(load(src + i)));
		if (i < w)
			m = imax(m, magnitude(load_part(src + i, w - i)));
		*peaks++ = imax_of(m);
	}
}

void NAME(peaks)(uint32_t *peaks, const float *src, int64_t n, int64_t width) { peaks_of(peaks, src, n, width); }

static void halves(uint16_t *restrict codes, const float *restrict src, int64_t n, int64_t width, const float *factors)
{
	if (n % width == 0 && halves_rows(codes, src, n, width, factors, 0))
		return;
	if (width == LANES && n % LANES == 0) {
		for (; n > 0; n -= LANES, src += LANES, codes += LANES)
			store_half(codes, mul(load(src), fill(*factors++)));
		return;
	}
	for (; n > 0; n -= width, src += width, codes += width) {
		int64_t w = min64(n, width), i = 0;
		fvec f = fill(*factors++);
		for (; i + LANES <= w; i += LANES)
			store_half(codes + i, mul(load(src + i), f));
		if (i < w)
			store_half_part(codes + i, mul(load_part(src + i, w - i), f), w - i);
	}
}

#define HIGHEST 254 /* exponent: rounded up to 2^15 its greatest would come back as 2^128 */

/* below_infinity takes the step back that rounding took beyond the largest float. */
static void below_infinity(uint16_t *codes, int64_t n, int64_t width, const uint8_t *exps)
{
	for (; n > 0; n -= width, codes += width)
		if (*exps++ == HIGHEST)
			for (int64_t i = 0, w = min64(n, width); i < w; i++)
				codes[i] -= (codes[i] & 0x7fff) == 0x7800;
}

static inline int on_lines(const void *p) { return !((intptr_t)p & 63); }

/* lined says that codes of so many vectors a store go from registers around the caches:
 * they are on the lines of the cache, and groups are one vector or whole stores. */
static inline int lined(const void *codes, int64_t n, int64_t width, int64_t vectors)
{
	return on_lines(codes) && n % (vectors * LANES) == 0 && n % width == 0 && (width == LANES || width % (vectors * LANES) == 0);
}

static void stream_all_halves(uint16_t *restrict codes, const float *restrict src, int64_t n, int64_t width, const float *factors)
{
	if (width == LANES) {
		for (int64_t i = 0; i < n; i += 2 * LANES, factors += 2)
			stream_halves(codes + i, mul(load(src + i), fill(factors[0])), mul(load(src + i + LANES), fill(factors[1])));
		return;
	}
	for (int64_t i = 0; i < n;) {
		fvec f = fill(*factors++);
		for (int64_t end = i + width; i < end; i += 2 * LANES)
			stream_halves(codes + i, mul(load(src + i), f), mul(load(src + i + LANES), f));
	}
}

/* exps_of says whether below_infinity has something to do. The greatest of a group
 * becomes 2^14 to 2^15. Masks, not branches, so that the compiler takes several at once. */
static int exps_of(uint8_t *restrict exps, float *restrict factors, const uint32_t *restrict peaks, int64_t groups)
{
	uint32_t high = 0;
	for (int64_t i = 0; i < groups; i++) {
		uint32_t e = peaks[i] >> 23, plain = -(uint32_t)(e == PSRT_EXP_PLAIN);
		e = e < PSRT_EXP_LEAST ? PSRT_EXP_LEAST : e;
		exps[i] = (uint8_t)e;
		high |= e == HIGHEST;
		factors[i] = float_of(((127u & plain) | ((268u - e) & ~plain)) << 23);
	}
	return (int)high;
}

/* exps come from outside: any value. */
static void factors_of(float *restrict factors, const uint8_t *restrict exps, int64_t groups)
{
	for (int64_t i = 0; i < groups; i++) {
		uint32_t e = exps[i], plain = -(uint32_t)(e == PSRT_EXP_PLAIN);
		uint32_t back = (e < PSRT_EXP_LEAST ? PSRT_EXP_LEAST : e) - 14u;
		factors[i] = float_of(((127u & plain) | (back & ~plain)) << 23);
	}
}

void NAME(half_encode)(uint16_t *codes, uint8_t *exps, const float *src, int64_t n, int64_t width, int32_t stream)
{
	uint32_t peaks[PIECE_GROUPS];
	float factors[PIECE_GROUPS];
	uint16_t out[OUT] __attribute__((aligned(64)));
	int64_t groups = piece_groups(width), step = groups * width;
	for (; n > 0; n -= step, src += step, codes += step, exps += groups) {
		int64_t m = min64(n, step), g = (m + width - 1) / width;
		peaks_of(peaks, src, m, width);
		if (stream)
			ahead(src + step, m * 4);
		int high = exps_of(exps, factors, peaks, g);
		if (!stream) {
			halves(codes, src, m, width, factors);
			if (high)
				below_infinity(codes, m, width, exps);
			continue;
		}
		if (!high && on_lines(codes) && m % width == 0 && halves_rows(codes, src, m, width, factors, 1))
			continue;
		if (!high && lined(codes, m, width, 2)) {
			stream_all_halves(codes, src, m, width, factors);
			continue;
		}
		halves(out, src, m, width, factors);
		if (high)
			below_infinity(out, m, width, exps);
		put((char *)codes, (const char *)out, m * 2, 1);
	}
	if (stream)
		stream_end();
}

/* direct says that floats go from registers around the caches: whole groups of whole
 * registers, on the lines of the cache. Through a buffer they would be loaded again,
 * which takes a sixth of the speed. */
static inline int direct(const float *dst, int64_t n, int64_t width)
{
	return on_lines(dst) && width % LANES == 0 && n % width == 0;
}

static void unhalves(float *restrict dst, const uint16_t *restrict codes, int64_t n, int64_t width, const float *factors)
{
	if (n % width == 0 && unhalves_rows(dst, codes, n, width, factors))
		return;
	if (width == LANES && n % LANES == 0) {
		for (; n > 0; n -= LANES, dst += LANES, codes += LANES)
			store(dst, mul(load_half(codes), fill(*factors++)));
		return;
	}
	for (; n > 0; n -= width, dst += width, codes += width) {
		int64_t w = min64(n, width), i = 0;
		fvec f = fill(*factors++);
		for (; i + LANES <= w; i += LANES)
			store(dst + i, mul(load_half(codes + i), f));
		if (i < w)
			store_part(dst + i, mul(load_half_part(codes + i, w - i), f), w - i);
	}
}

void NAME(half_decode)(float *dst, const uint16_t *codes, const uint8_t *exps, int64_t n, int64_t width, int32_t stream)
{
	float factors[PIECE_GROUPS];
	float out[OUT] __attribute__((aligned(64)));
	int64_t groups = piece_groups(width), step = groups * width;
	for (; n > 0; n -= step, dst += step, codes += step, exps += groups) {
		int64_t m = min64(n, step), g = (m + width - 1) / width;
		if (stream)
			ahead(codes + 4 * step, m * 2);
		factors_of(factors, exps, g);
		if (!stream) {
			unhalves(dst, codes, m, width, factors);
			continue;
		}
		if (direct(dst, m, width)) {
			for (int64_t i = 0, k = 0; i < m; i += width, k++)
				for (int64_t j = i; j < i + width; j += LANES)
					stream_floats(dst + j, mul(load_half(codes + j), fill(factors[k])));
			continue;
		}
		unhalves(out, codes, m, width, factors);
		put((char *)dst, (const char *)out, m * 4, 1);
	}
	if (stream)
		stream_end();
}

/* A group without a scale has factor 0: its codes are 0, also of what is not finite
 * (store_byte takes no NaN). */
static void bytes(int8_t *restrict codes, const float *restrict src, int64_t n, int64_t width, const float *factors, int bad)
{
	if (!bad && n % width == 0 && bytes_rows(codes, src, n, width, factors, 0))
		return;
	if (width == LANES && n % LANES == 0) {
		for (; n > 0; n -= LANES, src += LANES, codes += LANES)
			store_byte(codes, mul(load(src), fill(*factors++)));
		return;
	}
	for (; n > 0; n -= width, src += width, codes += width) {
		int64_t w = min64(n, width), i = 0;
		fvec v = fill(*factors++);
		for (; i + LANES <= w; i += LANES)
			store_byte(codes + i, mul(load(src + i), v));
		if (i < w)
			store_byte_part(codes + i, mul(load_part(src + i, w - i), v), w - i);
	}
}

static void stream_all_bytes(int8_t *restrict codes, const float *restrict src, int64_t n, int64_t width, const float *factors)
{
	if (width == LANES) {
		for (int64_t i = 0; i < n; i += 4 * LANES, factors += 4)
			stream_bytes(codes + i, mul(load(src + i), fill(factors[0])), mul(load(src + i + LANES), fill(factors[1])),
				mul(load(src + i + 2 * LANES), fill(factors[2])), mul(load(src + i + 3 * LANES), fill(factors[3])));
		return;
	}
	for (int64_t i = 0; i < n;) {
		fvec f = fill(*factors++);
		for (int64_t end = i + width; i < end; i += 4 * LANES)
			stream_bytes(codes + i, mul(load(src + i), f), mul(load(src + i + LANES), f),
				mul(load(src + i + 2 * LANES), f), mul(load(src + i + 3 * LANES), f));
	}
}

#define LEAST_PEAK 0x03800000u /* 2^-120: 127 over less is no float */

/* scales_of says whether any group is not finite. Masks, not branches, so that the
 * compiler divides several at once. */
static uint32_t scales_of(float *restrict scales, float *restrict factors, const uint32_t *restrict peaks, int64_t groups)
{
	uint32_t any = 0;
	for (int64_t i = 0; i < groups; i++) {
		uint32_t p = peaks[i], bad = -(uint32_t)(p >= 0x7f800000u), off = bad | -(uint32_t)(p < LEAST_PEAK);
		float top = float_of((p & ~off) | (0x3f800000u & off));
		factors[i] = float_of(bits_of_float(127.0f / top) & ~off);
		scales[i] = float_of((bits_of_float(top / 127.0f) & ~off) | (0x7fc00000u & bad));
		any |= bad;
	}
	return any;
}

void NAME(byte_encode)(int8_t *codes, float *scales, const float *src, int64_t n, int64_t width, int32_t stream)
{
	uint32_t peaks[PIECE_GROUPS];
	float factors[PIECE_GROUPS];
	int8_t out[OUT] __attribute__((aligned(64)));
	int64_t groups = piece_groups(width), step = groups * width;
	for (; n > 0; n -= step, src += step, codes += step, scales += groups) {
		int64_t m = min64(n, step), g = (m + width - 1) / width;
		peaks_of(peaks, src, m, width);
		if (stream)
			ahead(src + step, m * 4);
		uint32_t any = scales_of(scales, factors, peaks, g);
		if (!stream) {
			bytes(codes, src, m, width, factors, any);
			continue;
		}
		if (!any && on_lines(codes) && m % width == 0 && bytes_rows(codes, src, m, width, factors, 1))
			continue;
		if (lined(codes, m, width, 4)) {
			stream_all_bytes(codes, src, m, width, factors);
			continue;
		}
		bytes(out, src, m, width, factors, any);
		put((char *)codes, (const char *)out, m, 1);
	}
	if (stream)
		stream_end();
}

static void unbytes(float *restrict dst, const int8_t *restrict codes, int64_t n, int64_t width, const float *scales)
{
	if (n % width == 0 && unbytes_rows(dst, codes, n, width, scales))
		return;
	if (width == LANES && n % LANES == 0) {
		for (; n > 0; n -= LANES, dst += LANES, codes += LANES)
			store(dst, mul(load_byte(codes), fill(*scales++)));
		return;
	}
	for (; n > 0; n -= width, dst += width, codes += width) {
		int64_t w = min64(n, width), i = 0;
		fvec f = fill(*scales++);
		for (; i + LANES <= w; i += LANES)
			store(dst + i, mul(load_byte(codes + i), f));
		if (i < w)
			store_part(dst + i, mul(load_byte_part(codes + i, w - i), f), w - i);
	}
}

void NAME(byte_decode)(float *dst, const int8_t *codes, const float *scales, int64_t n, int64_t width, int32_t stream)
{
	float out[OUT] __attribute__((aligned(64)));
	int64_t groups = piece_groups(width), step = groups * width;
	if (!stream) {
		unbytes(dst, codes, n, width, scales);
		return;
	}
	for (; n > 0; n -= step, dst += step, codes += step, scales += groups) {
		int64_t m = min64(n, step);
		ahead(codes + 4 * step, m);
		if (direct(dst, m, width)) {
			for (int64_t i = 0, k = 0; i < m; i += width, k++)
				for (int64_t j = i; j < i + width; j += LANES)
					stream_floats(dst + j, mul(load_byte(codes + j), fill(scales[k])));
			continue;
		}
		unbytes(out, codes, m, width, scales);
		put((char *)dst, (const char *)out, m * 4, 1);
	}
	stream_end();
}

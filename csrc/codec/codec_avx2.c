/* The codecs for AVX2 with F16C. */
#if defined(__x86_64__)
#pragma GCC target("avx2,f16c")
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#define NAME(x) psrt_##x##_avx2
#define LANES 8

typedef __m256 fvec;
typedef __m256i ivec;

static inline fvec load(const float *p) { return _mm256_loadu_ps(p); }
static inline fvec load_part(const float *p, int64_t n)
{
	float t[8] = {0};
	memcpy(t, p, n * 4);
	return load(t);
}
static inline void store(float *p, fvec v) { _mm256_storeu_ps(p, v); }
static inline void store_part(float *p, fvec v, int64_t n)
{
	float t[8];
	store(t, v);
	memcpy(p, t, n * 4);
}
static inline fvec fill(float f) { return _mm256_set1_ps(f); }
static inline fvec mul(fvec a, fvec b) { return _mm256_mul_ps(a, b); }
static inline ivec izero(void) { return _mm256_setzero_si256(); }
static inline ivec imax(ivec a, ivec b) { return _mm256_max_epi32(a, b); }
static inline ivec magnitude(fvec v) { return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)); }
static inline uint32_t imax_of(ivec v)
{
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(m);
}

#define ROUND (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline void store_half(uint16_t *p, fvec v) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, ROUND)); }
static inline void store_half_part(uint16_t *p, fvec v, int64_t n)
{
	uint16_t t[8];
	store_half(t, v);
	memcpy(p, t, n * 2);
}
static inline fvec load_half(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline fvec load_half_part(const uint16_t *p, int64_t n)
{
	uint16_t t[8] = {0};
	memcpy(t, p, n * 2);
	return load_half(t);
}
static inline __m256i ints_of(fvec v) { return _mm256_and_si256(_mm256_cvtps_epi32(v), _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_ORD_Q))); }
static inline void store_byte(int8_t *p, fvec v)
{
	__m256i i = ints_of(v);
	__m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
	_mm_storel_epi64((__m128i *)p, _mm_packs_epi16(w, w));
}
static inline void store_byte_part(int8_t *p, fvec v, int64_t n)
{
	int8_t t[8];
	store_byte(t, v);
	memcpy(p, t, n);
}
static inline fvec load_byte(const int8_t *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))); }
static inline fvec load_byte_part(const int8_t *p, int64_t n)
{
	int8_t t[8] = {0};
	memcpy(t, p, n);
	return load_byte(t);
}
static inline void stream_line(char *to, const char *from)
{
	_mm256_stream_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
	_mm256_stream_si256((__m256i *)(to + 32), _mm256_loadu_si256((const __m256i *)(from + 32)));
}
static inline void stream_floats(float *p, fvec v) { _mm256_stream_ps(p, v); }
static inline void stream_halves(uint16_t *p, fvec a, fvec b)
{
	_mm256_stream_si256((__m256i *)p, _mm256_set_m128i(_mm256_cvtps_ph(b, ROUND), _mm256_cvtps_ph(a, ROUND)));
}
static inline void stream_bytes(int8_t *p, fvec a, fvec b, fvec c, fvec d)
{
	__m256i v = _mm256_packs_epi16(_mm256_packs_epi32(ints_of(a), ints_of(b)), _mm256_packs_epi32(ints_of(c), ints_of(d)));
	/* Packing goes by halves of the register: fours of a, b, c, d, and those behind them. */
	_mm256_stream_si256((__m256i *)p, _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}
static inline void stream_end(void) { _mm_sfence(); }

/* Whole groups of 16, or of several times four registers. */
#define ROWS
#define ALWAYS static inline __attribute__((always_inline)) /* stream is known at each call */

/* Maxima of pairs of groups, three times, so that none is reduced by itself. */
ALWAYS void peaks_of_8(uint32_t *peaks, const float *src)
{
	ivec a[8];
	for (int i = 0; i < 8; i++)
		a[i] = imax(magnitude(load(src + i * 16)), magnitude(load(src + i * 16 + 8)));
	for (int i = 0; i < 4; i++) /* groups i and i+4: 4 maxima each, a half of the register each */
		a[i] = imax(_mm256_permute2x128_si256(a[i], a[i + 4], 0x20), _mm256_permute2x128_si256(a[i], a[i + 4], 0x31));
	for (int i = 0; i < 2; i++) /* i, i+2: 2 each */
		a[i] = imax(_mm256_unpacklo_epi32(a[i], a[i + 2]), _mm256_unpackhi_epi32(a[i], a[i + 2]));
	/* Halves are of groups 0 to 3 and 4 to 7. */
	_mm256_storeu_si256((__m256i *)peaks, imax(_mm256_unpacklo_epi32(a[0], a[1]), _mm256_unpackhi_epi32(a[0], a[1])));
}

static int peaks_rows(uint32_t *restrict peaks, const float *restrict src, int64_t n, int64_t width)
{
	if (width == 16 && n % 128 == 0) {
		for (; n > 0; n -= 128, src += 128, peaks += 8)
			peaks_of_8(peaks, src);
		return 1;
	}
	if (width % 32)
		return 0;
	for (; n > 0; n -= width) {
		ivec a = izero(), b = a, c = a, d = a;
		for (const float *end = src + width; src < end; src += 32) {
			a = imax(a, magnitude(load(src)));
			b = imax(b, magnitude(load(src + 8)));
			c = imax(c, magnitude(load(src + 16)));
			d = imax(d, magnitude(load(src + 24)));
		}
		*peaks++ = imax_of(imax(imax(a, b), imax(c, d)));
	}
	return 1;
}

ALWAYS void halves_of_16(uint16_t *codes, const float *src, fvec f, int stream)
{
	fvec a = mul(load(src), f), b = mul(load(src + 8), f);
	if (stream) {
		stream_halves(codes, a, b);
		return;
	}
	store_half(codes, a);
	store_half(codes + 8, b);
}

ALWAYS int halves_rows(uint16_t *restrict codes, const float *restrict src, int64_t n, int64_t width, const float *factors, int stream)
{
	if (width == 16) {
		for (; n > 0; n -= 16, src += 16, codes += 16)
			halves_of_16(codes, src, fill(*factors++), stream);
		return 1;
	}
	if (width % 32)
		return 0;
	for (; n > 0; n -= width) {
		fvec f = fill(*factors++);
		for (const float *end = src + width; src < end; src += 32, codes += 32) {
			halves_of_16(codes, src, f, stream);
			halves_of_16(codes + 16, src + 16, f, stream);
		}
	}
	return 1;
}

/* f is the factor of the first 16, g of the others; all are finite. */
ALWAYS __m256i bytes_of_32(const float *src, fvec f, fvec g)
{
	__m256i a = _mm256_cvtps_epi32(mul(load(src), f)), b = _mm256_cvtps_epi32(mul(load(src + 8), f));
	__m256i c = _mm256_cvtps_epi32(mul(load(src + 16), g)), d = _mm256_cvtps_epi32(mul(load(src + 24), g));
	__m256i v = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
	return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

ALWAYS void bytes_to(int8_t *codes, __m256i v, int stream)
{
	if (stream)
		_mm256_stream_si256((__m256i *)codes, v);
	else
		_mm256_storeu_si256((__m256i *)codes, v);
}

ALWAYS int bytes_rows(int8_t *restrict codes, const float *restrict src, int64_t n, int64_t width, const float *factors, int stream)
{
	if (width == 16 && n % 32 == 0) {
		for (; n > 0; n -= 32, src += 32, codes += 32, factors += 2)
			bytes_to(codes, bytes_of_32(src, fill(factors[0]), fill(factors[1])), stream);
		return 1;
	}
	if (width % 32)
		return 0;
	for (; n > 0; n -= width) {
		fvec f = fill(*factors++);
		for (const float *end = src + width; src < end; src += 32, codes += 32)
			bytes_to(codes, bytes_of_32(src, f, f), stream);
	}
	return 1;
}

ALWAYS void unhalves_of_16(float *dst, const uint16_t *codes, fvec f)
{
	store(dst, mul(load_half(codes), f));
	store(dst + 8, mul(load_half(codes + 8), f));
}

ALWAYS int unhalves_rows(float *restrict dst, const uint16_t *restrict codes, int64_t n, int64_t width, const float *factors)
{
	if (width == 16) {
		for (; n > 0; n -= 16, dst += 16, codes += 16)
			unhalves_of_16(dst, codes, fill(*factors++));
		return 1;
	}
	if (width % 32)
		return 0;
	for (; n > 0; n -= width) {
		fvec f = fill(*factors++);
		for (float *end = dst + width; dst < end; dst += 32, codes += 32) {
			unhalves_of_16(dst, codes, f);
			unhalves_of_16(dst + 16, codes + 16, f);
		}
	}
	return 1;
}

ALWAYS void unbytes_of_16(float *dst, const int8_t *codes, fvec f)
{
	store(dst, mul(load_byte(codes), f));
	store(dst + 8, mul(load_byte(codes + 8), f));
}

ALWAYS int unbytes_rows(float *restrict dst, const int8_t *restrict codes, int64_t n, int64_t width, const float *scales)
{
	if (width == 16) {
		for (; n > 0; n -= 16, dst += 16, codes += 16)
			unbytes_of_16(dst, codes, fill(*scales++));
		return 1;
	}
	if (width % 32)
		return 0;
	for (; n > 0; n -= width) {
		fvec f = fill(*scales++);
		for (float *end = dst + width; dst < end; dst += 32, codes += 32) {
			unbytes_of_16(dst, codes, f);
			unbytes_of_16(dst + 16, codes + 16, f);
		}
	}
	return 1;
}

#include "body.h"
#else
typedef int psrt_no_codec_avx2;
#endif

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
static inline int peaks_16(uint32_t *peaks, const float *src, int64_t rows) { return 0; }

#include "body.h"
#else
typedef int psrt_no_codec_avx2;
#endif

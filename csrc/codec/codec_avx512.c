/* The codecs for AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#include <immintrin.h>
#include <stdint.h>
#define NAME(x) psrt_##x##_avx512
#define LANES 16

typedef __m512 fvec;
typedef __m512i ivec;

static inline __mmask16 mask_of(int64_t n) { return (__mmask16)((1u << n) - 1); }
static inline fvec load(const float *p) { return _mm512_loadu_ps(p); }
static inline fvec load_part(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(mask_of(n), p); }
static inline void store(float *p, fvec v) { _mm512_storeu_ps(p, v); }
static inline void store_part(float *p, fvec v, int64_t n) { _mm512_mask_storeu_ps(p, mask_of(n), v); }
static inline fvec fill(float f) { return _mm512_set1_ps(f); }
static inline fvec mul(fvec a, fvec b) { return _mm512_mul_ps(a, b); }
static inline ivec izero(void) { return _mm512_setzero_si512(); }
static inline ivec imax(ivec a, ivec b) { return _mm512_max_epi32(a, b); }
static inline ivec magnitude(fvec v) { return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)); }
static inline uint32_t imax_of(ivec v) { return (uint32_t)_mm512_reduce_max_epi32(v); }

#define ROUND (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline void store_half(uint16_t *p, fvec v) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, ROUND)); }
static inline void store_half_part(uint16_t *p, fvec v, int64_t n) { _mm256_mask_storeu_epi16(p, mask_of(n), _mm512_cvtps_ph(v, ROUND)); }
static inline fvec load_half(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline fvec load_half_part(const uint16_t *p, int64_t n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask_of(n), p)); }
static inline __m128i bytes_of(fvec v) { return _mm512_cvtsepi32_epi8(_mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v)); }
static inline void store_byte(int8_t *p, fvec v) { _mm_storeu_si128((__m128i *)p, bytes_of(v)); }
static inline void store_byte_part(int8_t *p, fvec v, int64_t n) { _mm_mask_storeu_epi8(p, mask_of(n), bytes_of(v)); }
static inline fvec load_byte(const int8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p))); }
static inline fvec load_byte_part(const int8_t *p, int64_t n) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask_of(n), p))); }
static inline void stream_line(char *to, const char *from) { _mm512_stream_si512((void *)to, _mm512_loadu_si512(from)); }
static inline void stream_floats(float *p, fvec v) { _mm512_stream_ps(p, v); }
static inline void stream_halves(uint16_t *p, fvec a, fvec b)
{
	_mm512_stream_si512((void *)p, _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(a, ROUND)), _mm512_cvtps_ph(b, ROUND), 1));
}
static inline void stream_bytes(int8_t *p, fvec a, fvec b, fvec c, fvec d)
{
	__m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes_of(a)), bytes_of(b), 1);
	__m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes_of(c)), bytes_of(d), 1);
	_mm512_stream_si512((void *)p, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}
static inline void stream_end(void) { _mm_sfence(); }

/* Maxima of pairs of rows, four times, so that no row is reduced by itself. */
static inline int peaks_rows(uint32_t *peaks, const float *src, int64_t n, int64_t width)
{
	if (width != 16 || n % 256)
		return 0;
	for (; n > 0; n -= 256, src += 256, peaks += 16) {
		ivec a[8];
		for (int i = 0; i < 8; i++) { /* rows i and i+8: halves of 8 maxima */
			ivec x = magnitude(load(src + i * 16)), y = magnitude(load(src + (i + 8) * 16));
			a[i] = imax(_mm512_shuffle_i64x2(x, y, 0x44), _mm512_shuffle_i64x2(x, y, 0xee));
		}
		for (int i = 0; i < 4; i++) /* i, i+4, i+8, i+12: 4 each, a quarter of the register each */
			a[i] = imax(_mm512_shuffle_i64x2(a[i], a[i + 4], 0x88), _mm512_shuffle_i64x2(a[i], a[i + 4], 0xdd));
		for (int i = 0; i < 2; i++)
			a[i] = imax(_mm512_unpacklo_epi32(a[i], a[i + 2]), _mm512_unpackhi_epi32(a[i], a[i + 2]));
		a[0] = imax(_mm512_unpacklo_epi32(a[0], a[1]), _mm512_unpackhi_epi32(a[0], a[1]));
		/* Quarters are of rows 0, 8, 4, 12 and the three after each: 0 1 2 3. */
		_mm512_storeu_si512(peaks, _mm512_shuffle_i64x2(a[0], a[0], 0xd8));
	}
	return 1;
}

#include "body.h"
#else
typedef int psrt_no_codec_avx512;
#endif

/* The fold for AVX2 with half-float conversions. */
#if defined(__x86_64__)
#pragma GCC target("avx2,f16c")
#include <immintrin.h>
#define NAME(x) psrt_##x##_avx2
#define WIDTH 8
typedef __m256 wide;
#define widen(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define narrow(p, v) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define WIDE_SUM _mm256_add_ps(a, b)
#define WIDE_PROD _mm256_mul_ps(a, b)
#define WIDE_MIN _mm256_min_ps(b, a) /* the second where they are unordered */
#define WIDE_MAX _mm256_max_ps(b, a)
#define STREAM(to, from)                                                                                            \
	do {                                                                                                        \
		_mm256_stream_si256((__m256i *)(to), _mm256_loadu_si256((const __m256i *)(from)));                  \
		_mm256_stream_si256((__m256i *)((to) + 32), _mm256_loadu_si256((const __m256i *)((from) + 32)));    \
	} while (0)
#define STREAM_END() _mm_sfence()
#include "body.h"
#else
typedef int psrt_no_avx2;
#endif

/* The kernels for AVX-512. The target has no FMA in body.h's loops because
 * contraction is off, not because the CPU lacks it. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#include <immintrin.h>
#define NAME(x) psrt_##x##_avx512
#define REGISTER 64
#define STREAM(to, v) _mm512_stream_ps(to, (__m512)(v))
#define STREAM_END() _mm_sfence()
#include "body.h"
#else
typedef int psrt_no_avx512;
#endif

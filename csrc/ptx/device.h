/* What the kernels stand on: CUDA without its headers, or, for the twin that runs
 * them on the host, plain C. There a thread does all the lanes of its row, and the
 * launcher counts threads up in psrt_thread, of its own thread: several may run kernels.
 *
 * LANES threads share a row; lane l has the elements l, l + LANES, ... A value
 * across lanes is an array of OWN: one a thread on a GPU, all of them on the host. */
#ifndef PSRT_DEVICE_H
#define PSRT_DEVICE_H

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define LANES 16

#ifdef __NVCC__
#include "nvcc.h"
#endif

#ifdef __CUDA__

#define KERNEL extern "C" __attribute__((global)) void
#ifdef __NVCC__
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED _Pragma("nounroll")
#endif
#define DEVICE static __attribute__((device, always_inline)) inline
#define OWN 1
#define SQRT(x) __nvvm_sqrt_rn_f(x)
#define FMA(x, y, z) __nvvm_fma_rn_f(x, y, z)
#ifdef __NVCC__
typedef float4 float4_t;
#else
typedef float float4_t __attribute__((ext_vector_type(4)));
#endif

DEVICE u64 thread_index(void)
{
	return (u64)__nvvm_read_ptx_sreg_ctaid_x() * (u32)__nvvm_read_ptx_sreg_ntid_x() + (u32)__nvvm_read_ptx_sreg_tid_x();
}

DEVICE u64 row_index(void) { return thread_index() / LANES; }
DEVICE int first_lane(void) { return (int)(__nvvm_read_ptx_sreg_tid_x() % LANES); }

/* Only the lanes of this row's half of the warp take part: other rows go other ways. */
DEVICE int half_mask(void) { return (int)(0xffffu << (__nvvm_read_ptx_sreg_tid_x() & 16)); }

#define WITHIN_HALF 0x101f

DEVICE int any_lane(const int *v)
{
	int x = v[0];
	for (int h = LANES / 2; h > 0; h /= 2)
		x |= __nvvm_shfl_sync_bfly_i32(half_mask(), x, h, WITHIN_HALF);
	return x != 0;
}

/* In halves: addition commutes, so that every lane has the bits that lane 0 has. */
DEVICE float sum_lanes(float *v)
{
	float x = v[0];
	for (int h = LANES / 2; h > 0; h /= 2)
		x += __nvvm_shfl_sync_bfly_f32(half_mask(), x, h, WITHIN_HALF);
	return x;
}

/* What lanes read must have been read by all of them before one writes there. */
DEVICE void lanes_meet(void) { __nvvm_bar_warp_sync(half_mask()); }

/* The least of all lanes' values, in each of them. */
DEVICE u32 least_lane(const u32 *v)
{
	u32 x = v[0];
	for (int h = LANES / 2; h > 0; h /= 2) {
		u32 y = (u32)__nvvm_shfl_sync_bfly_i32(half_mask(), (int)x, h, WITHIN_HALF);
		x = y < x ? y : x;
	}
	return x;
}

DEVICE void count_one(u64 *at)
{
	if (first_lane() == 0)
		__atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
}

#else

#include <math.h>
#include <string.h>

#ifdef KERNEL_IS_STATIC
#define KERNEL static void
#else
#define KERNEL void
#endif
#define ROLLED
#define DEVICE static inline
#define OWN LANES
#define SQRT(x) sqrtf(x)
#define FMA(x, y, z) __builtin_fmaf(x, y, z)
typedef float float4_t __attribute__((vector_size(16)));

extern _Thread_local u64 psrt_thread;

DEVICE u64 row_index(void) { return psrt_thread / LANES; }
DEVICE int first_lane(void) { return (int)(psrt_thread % LANES); } /* threads of other lanes have nothing to do */

DEVICE int any_lane(const int *v)
{
	int x = 0;
	for (int l = 0; l < LANES; l++)
		x |= v[l];
	return x;
}

DEVICE float sum_lanes(float *v)
{
	for (int h = LANES / 2; h > 0; h /= 2)
		for (int l = 0; l < h; l++)
			v[l] += v[l + h];
	return v[0];
}

DEVICE u32 least_lane(const u32 *v)
{
	u32 x = v[0];
	for (int l = 1; l < LANES; l++)
		x = v[l] < x ? v[l] : x;
	return x;
}

DEVICE void lanes_meet(void) {}
DEVICE void count_one(u64 *at) { ++*at; }

#endif

/* The bijection of csrc/probe's hash.go, and of csrc/nn. */
DEVICE u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Is there work for this thread? On the host only the first lane has some. */
#define IDLE (OWN > 1 && first_lane() != 0)

/* All elements of this thread's lanes, in any order: for what crosses no lanes. */
#define EACH(i, n) (i64 i = OWN > 1 ? 0 : first_lane(); i < (n); i += OWN > 1 ? 1 : LANES)

/* The lanes of this thread, l of OWN, and the elements i of one. */
#define EACH_LANE(l) (int l = 0; l < OWN; l++)
#define OF_LANE(i, l, n) (i64 i = OWN > 1 ? l : first_lane(); i < (n); i += LANES)

#endif

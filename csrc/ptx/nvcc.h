/* clang's names of what the kernels use, for nvcc: a second compiler reads them, which
 * finds what the first lets pass. The text that is committed is clang's (compile.sh). */
#ifndef PSRT_NVCC_H
#define PSRT_NVCC_H

#define __CUDA__ 1
#define __nvvm_read_ptx_sreg_ctaid_x() blockIdx.x
#define __nvvm_read_ptx_sreg_ntid_x() blockDim.x
#define __nvvm_read_ptx_sreg_tid_x() threadIdx.x
#define __nvvm_sqrt_rn_f(x) __fsqrt_rn(x)
#define __nvvm_fma_rn_f(x, y, z) __fmaf_rn(x, y, z)
/* WITHIN_HALF, the last, is a width of 16 to nvcc. */
#define __nvvm_shfl_sync_bfly_i32(mask, x, h, within) __shfl_xor_sync(mask, x, h, 16)
#define __nvvm_shfl_sync_bfly_f32(mask, x, h, within) __shfl_xor_sync(mask, x, h, 16)
#define __nvvm_bar_warp_sync(mask) __syncwarp(mask)
#define __atomic_fetch_add(at, n, order) atomicAdd(at, n)
#define __builtin_copysignf(x, y) copysignf(x, y)
#define __builtin_fabsf(x) fabsf(x)

#endif

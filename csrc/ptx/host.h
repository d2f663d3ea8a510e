#ifndef PSRT_HOST_H
#define PSRT_HOST_H

#include "psrt_accel.h"

/* The host as an accelerator for dense layers: its memory, and their kernels as C. */
const psrt_accel_ops *psrt_host_table(void);

/* Runs a kernel for n rows; 0: there is none of this number, or its argument has another
 * size. Two forms with equal bits: the processor's fused operation, and a function's. */
int psrt_host_run_plain(int32_t kernel, uint64_t n, const void *argument, uint64_t bytes);
int psrt_host_run_fused(int32_t kernel, uint64_t n, const void *argument, uint64_t bytes);

#endif

#ifndef PSRT_CUDA_TABLE_H
#define PSRT_CUDA_TABLE_H

#include "cuda.h"
#include "psrt_accel.h"

/* The driver, loaded before, as an accelerator. Its kernels are ptx, ended by 0, by the
 * names in the order of psrt_accel.h with one space between two; lanes threads do a row
 * of theirs, block of them are a block. What is given first stays for the life of the
 * process. NULL: names are not as many as kernels, or there is no memory. */
const psrt_accel_ops *psrt_cuda_table(const char *ptx, const char *names, uint32_t lanes, uint32_t block);

#endif

#include <math.h>
#include <string.h>

#include "host.h"

/* No flag of the build's: only who has asked whether the processor can calls this. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#pragma GCC optimize("O3")

#define KERNEL_IS_STATIC
#define FN(name) name##_fused
#include "host_kernels.h"

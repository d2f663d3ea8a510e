#include <math.h>
#include <string.h>

#include "host.h"

#define KERNEL_IS_STATIC
#define FN(name) name##_plain
#include "host_kernels.h"

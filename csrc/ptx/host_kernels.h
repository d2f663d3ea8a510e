/* The kernels of dense.h for the host's own processor, with the names that FN gives. */
#include "dense.h"

#define OF(kernel, type) do { \
	type x; \
	if (bytes != sizeof x) \
		return 0; \
	memcpy(&x, argument, sizeof x); \
	for (psrt_thread = 0; psrt_thread < n * LANES; psrt_thread += LANES) \
		kernel(x); \
	return 1; \
} while (0)

int FN(psrt_host_run)(int32_t kernel, uint64_t n, const void *argument, uint64_t bytes)
{
	switch (kernel) {
	case PSRT_ACCEL_PRODUCT: OF(psrt_product, struct product);
	case PSRT_ACCEL_ACTIVATE: OF(psrt_activate, struct layer);
	case PSRT_ACCEL_ACTIVATE_BACK: OF(psrt_activate_back, struct layer);
	case PSRT_ACCEL_NORMALIZE: OF(psrt_normalize, struct layer);
	case PSRT_ACCEL_NORMALIZE_BACK: OF(psrt_normalize_back, struct layer);
	case PSRT_ACCEL_OUTPUT: OF(psrt_output, struct layer);
	case PSRT_ACCEL_OUTPUT_BACK: OF(psrt_output_back, struct layer);
	case PSRT_ACCEL_CROSS: OF(psrt_cross, struct layer);
	case PSRT_ACCEL_CROSS_BACK: OF(psrt_cross_back, struct layer);
	case PSRT_ACCEL_ADD: OF(psrt_add, struct layer);
	case PSRT_ACCEL_LOSS: OF(psrt_loss, struct layer);
	}
	return 0;
}

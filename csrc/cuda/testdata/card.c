/* Says which driver is here and how many cards it shows, or why there is none: for
 * .ci/gpu-check.sh, before anything is built.
 *
 *   cc -o card csrc/cuda/testdata/card.c -ldl */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	const char *path = getenv("PSRT_CUDA_LIBRARY");
	void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "no GPU driver: %s: install the GPU's driver, or have PSRT_CUDA_LIBRARY name its file\n", dlerror());
		return 1;
	}
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
	int (*count)(int *) = (int (*)(int *))dlsym(library, "cuDeviceGetCount");
	int e, n = 0;
	if (!init || !count) {
		fprintf(stderr, "%s is no CUDA driver: PSRT_CUDA_LIBRARY names another\n", path ? path : "libcuda.so.1");
		return 1;
	}
	if ((e = init(0)) || (e = count(&n)) || n < 1) {
		fprintf(stderr, "the GPU driver shows no card (CUDA error %d; 100 is that there is none): is one here, and may this user or container see it? nvidia-smi -L; CUDA_VISIBLE_DEVICES\n", e);
		return 1;
	}
	printf("%d GPU%s here\n", n, n == 1 ? " is" : "s are");
	return 0;
}

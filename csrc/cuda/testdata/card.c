/* Says which driver is here and how many cards it shows, or why there is none, and then
 * whether NCCL is: for .ci/gpu-check.sh, before anything is built.
 *
 *   cc -o card csrc/cuda/testdata/card.c -ldl */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* The file that a variable of the environment names, else the library of that name. */
static void *open_library(const char *variable, const char *name)
{
	const char *path = getenv(variable);
	return dlopen(path && *path ? path : name, RTLD_NOW);
}

int main(void)
{
	void *library = open_library("PSRT_CUDA_LIBRARY", "libcuda.so.1");
	if (!library) {
		fprintf(stderr, "no GPU driver: %s: install the GPU's driver, or have PSRT_CUDA_LIBRARY name its file\n", dlerror());
		return 1;
	}
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
	int (*count)(int *) = (int (*)(int *))dlsym(library, "cuDeviceGetCount");
	int e, n = 0;
	if (!init || !count) {
		fprintf(stderr, "what is loaded as the GPU's driver is none: PSRT_CUDA_LIBRARY names another\n");
		return 1;
	}
	if ((e = init(0)) || (e = count(&n)) || n < 1) {
		fprintf(stderr, "the GPU driver shows no card (CUDA error %d; 100 is that there is none): is one here, and may this user or container see it? nvidia-smi -L; CUDA_VISIBLE_DEVICES\n", e);
		return 1;
	}
	printf("%d GPU%s here\n", n, n == 1 ? " is" : "s are");
	int (*driver)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
	if (driver && !driver(&n))
		printf("the driver is of CUDA %d.%d\n", n / 1000, n % 1000 / 10);
	if ((library = open_library("PSRT_NCCL_LIBRARY", "libnccl.so.2"))) {
		int (*nccl)(int *) = (int (*)(int *))dlsym(library, "ncclGetVersion");
		printf("NCCL is here, number %d\n", nccl && !nccl(&n) ? n : 0);
	} else
		printf("no NCCL: %s: install it, or have PSRT_NCCL_LIBRARY name its file\n", dlerror());
	return 0;
}

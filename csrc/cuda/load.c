#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct psrt_cu psrt_cu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int loaded;

static const struct {
	const char *name;
	void *slot;
} symbols[] = {
#define F(field, name, args) { #name, &psrt_cu.field },
	PSRT_CU_FUNCTIONS(F)
#undef F
};

static int32_t refuse(char *why, size_t n, const char *path, const char *text)
{
	snprintf(why, n, "%s: %s", path, text);
	return -1;
}

int32_t psrt_cuda_load(const char *path, char *why, size_t n)
{
	int32_t result = 0;
	pthread_mutex_lock(&lock);
	if (loaded)
		goto out;
	/* Never closed: the driver has threads. */
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *e = dlerror(); /* names the file */
		snprintf(why, n, "%s", e ? e : "dlopen failed");
		result = -1;
		goto out;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(lib, symbols[i].name);
		if (!f) {
			char text[128];
			/* Every driver has the first. */
			snprintf(text, sizeof text, "has no %s: %s", symbols[i].name, i ? "older than CUDA 11" : "it is no CUDA driver at all; PSRT_CUDA_LIBRARY names the driver's file");
			result = refuse(why, n, path, text);
			goto out;
		}
		memcpy(symbols[i].slot, &f, sizeof f);
	}
	void *f = dlsym(lib, "cuMemGetHandleForAddressRange");
	memcpy(&psrt_cu.address_handle, &f, sizeof f);
	f = dlsym(lib, "cuFlushGPUDirectRDMAWrites");
	memcpy(&psrt_cu.flush, &f, sizeof f);
	int32_t e = psrt_cu.init(0);
	if (e) {
		char text[200];
		psrt_cuda_error_text(e, text, sizeof text);
		result = refuse(why, n, path, text);
		goto out;
	}
	loaded = 1;
out:
	pthread_mutex_unlock(&lock);
	return result;
}

int32_t psrt_cuda_has_dmabuf(void) { return psrt_cu.address_handle != NULL; }

void psrt_cuda_error_text(int32_t result, char *text, size_t n)
{
	const char *name = NULL, *says = NULL;
	if (psrt_cu.error_name(result, &name) || !name)
		name = "unknown error";
	if (psrt_cu.error_string(result, &says) || !says)
		says = "";
	snprintf(text, n, "%s (%d): %s", name, result, says);
}

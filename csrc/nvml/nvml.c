#include "nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* nvml.h's: nvmlReturn_t and its other enumerations are int or unsigned, a device is a pointer. */
enum {
	NVML_NOT_SUPPORTED = 3,
	NVML_INVALID_ARGUMENT = 2,
	NVML_READ = 0, /* nvmlGpuP2PCapsIndex_t */
	NVML_LINK = 2,
	NVML_OK = 0,  /* nvmlGpuP2PStatus_t */
	MOST_LINKS = 64, /* NVML_NVLINK_MAX_LINKS was 6, then 18, then 36 */
};

static struct {
	int (*init)(void);
	int (*find)(const char *, void **);
	int (*state)(void *, unsigned, unsigned *);
	int (*status)(void *, void *, unsigned, unsigned *);
	const char *(*text)(int);
} nvml;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int loaded;

static const struct {
	const char *name;
	void *slot;
} symbols[] = {
	{ "nvmlInit_v2", &nvml.init },
	{ "nvmlDeviceGetHandleByPciBusId_v2", &nvml.find },
	{ "nvmlDeviceGetNvLinkState", &nvml.state },
	{ "nvmlDeviceGetP2PStatus", &nvml.status },
	{ "nvmlErrorString", &nvml.text },
};

static int32_t load(const char *path, char *why, size_t n)
{
	/* Never closed, like the driver. */
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *e = dlerror(); /* names the file */
		snprintf(why, n, "%s", e ? e : "dlopen failed");
		return -1;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(lib, symbols[i].name);
		if (!f) {
			snprintf(why, n, "%s: has no %s: older than driver 384", path, symbols[i].name);
			return -1;
		}
		memcpy(symbols[i].slot, &f, sizeof f);
	}
	int e = nvml.init();
	if (e) {
		snprintf(why, n, "%s: nvmlInit: %s", path, nvml.text(e));
		return -1;
	}
	return 0;
}

int32_t psrt_nvml_load(const char *path, char *why, size_t n)
{
	int32_t e = 0;
	pthread_mutex_lock(&lock);
	if (!loaded && !(e = load(path, why, n)))
		loaded = 1;
	pthread_mutex_unlock(&lock);
	return e;
}

const char *psrt_nvml_text(int32_t result) { return nvml.text(result); }

int32_t psrt_nvml_links(const char *bus, int32_t *up, int32_t *all)
{
	void *card;
	int e = nvml.find(bus, &card);
	*up = *all = 0;
	for (unsigned i = 0; !e && i < MOST_LINKS; i++) {
		unsigned active = 0;
		int s = nvml.state(card, i, &active);
		if (s == NVML_INVALID_ARGUMENT) /* past the last that any card has */
			break;
		if (s == NVML_NOT_SUPPORTED) /* this card has no such link */
			continue;
		e = s;
		*up += active == 1;
		++*all;
	}
	return e;
}

int32_t psrt_nvml_between(const char *one, const char *other, int32_t *nvlink, int32_t *peer)
{
	void *a, *b;
	unsigned link = 1, read = 1;
	int e;
	if ((e = nvml.find(one, &a)) || (e = nvml.find(other, &b)) ||
	    (e = nvml.status(a, b, NVML_LINK, &link)) || (e = nvml.status(a, b, NVML_READ, &read)))
		return e;
	*nvlink = link == NVML_OK;
	*peer = read == NVML_OK;
	return 0;
}

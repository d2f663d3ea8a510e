#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 2708 }; /* 2.7.8: the first with ncclSend and ncclRecv */

static const struct {
	const char *name, *since;
	size_t offset;
	int optional;
} symbols[] = {
#define F(field, name, since, args) { name, since, offsetof(struct psrt_nccl, field), 0 },
	PSRT_NCCL_FUNCTIONS(F)
#undef F
	{ "ncclGetErrorString", "2.0", offsetof(struct psrt_nccl, error_string), 0 },
#define F(field, name, since, args) { name, since, offsetof(struct psrt_nccl, field), 1 },
	PSRT_NCCL_OPTIONAL(F)
#undef F
	{ "ncclGetLastError", "2.13", offsetof(struct psrt_nccl, last_error), 1 },
};

static int fill(psrt_nccl *lib, void *handle, const char *path, char *why, size_t n)
{
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(handle, symbols[i].name);
		if (!f && !symbols[i].optional) {
			snprintf(why, n, "%s: has no %s, which NCCL %s has: it is no NCCL, or older than 2.7", path, symbols[i].name, symbols[i].since);
			return -1;
		}
		memcpy((char *)lib + symbols[i].offset, &f, sizeof f);
	}
	if (lib->get_version(&lib->version)) {
		snprintf(why, n, "%s: does not tell its version", path);
		return -1;
	}
	/* From 2.9 on a version is written with two digits more. */
	if (lib->version < OLDEST || lib->version >= 30000 || (lib->version >= 3000 && lib->version < 20000)) {
		snprintf(why, n, "%s: is of version number %d: want NCCL 2.7.8 or a later NCCL 2", path, lib->version);
		return -1;
	}
	return 0;
}

psrt_nccl *psrt_nccl_load(const char *path, char *why, size_t n)
{
	/* Never closed: the library has threads. */
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *e = dlerror(); /* names the file */
		snprintf(why, n, "%s", e ? e : "dlopen failed");
		return NULL;
	}
	psrt_nccl *lib = calloc(1, sizeof *lib);
	if (!lib) {
		snprintf(why, n, "%s: no memory", path);
		return NULL;
	}
	if (fill(lib, handle, path, why, n)) {
		free(lib);
		return NULL;
	}
	return lib;
}

int32_t psrt_nccl_version(const psrt_nccl *lib) { return lib->version; }

uint32_t psrt_nccl_has(const psrt_nccl *lib)
{
	return (lib->init_config && lib->finalize ? PSRT_NCCL_HAS_CONFIG : 0) |
	       (lib->reg && lib->dereg ? PSRT_NCCL_HAS_REGISTER : 0) | (lib->last_error ? PSRT_NCCL_HAS_LAST : 0);
}

void psrt_nccl_text(const psrt_nccl *lib, int32_t result, void *comm, char *text, size_t n)
{
	const char *says = lib->error_string(result), *last = lib->last_error ? lib->last_error(comm) : NULL;
	if (last && *last)
		snprintf(text, n, "%s (%d): %s", says ? says : "unknown error", result, last);
	else
		snprintf(text, n, "%s (%d)", says ? says : "unknown error", result);
}

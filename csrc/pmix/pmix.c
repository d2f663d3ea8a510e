#include "pmix.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of the PMIx 3 and 4 ABI (libpmix.so.2) that is used here. */
enum { SPACE = 256, KEY = 512 };
enum { T_BOOL = 1, T_INT = 6, T_UINT32 = 14, T_BYTES = 27 };
enum { GLOBAL = 3 };
static const uint32_t EVERYBODY = UINT32_MAX - 1;

struct proc { char space[SPACE]; uint32_t rank; };
struct value {
	uint16_t type;
	union {
		bool flag;
		int integer;
		uint32_t uint32;
		struct { char *bytes; size_t size; } bo;
		char room[24];
	} data;
};
struct info { char key[KEY]; uint32_t flags; struct value value; };

_Static_assert(sizeof(struct proc) == 260, "pmix_proc_t");
_Static_assert(sizeof(struct value) == 32, "pmix_value_t");
_Static_assert(sizeof(struct info) == 552, "pmix_info_t");

static struct {
	int (*Init)(struct proc *, struct info *, size_t);
	int (*Finalize)(const struct info *, size_t);
	int (*Put)(uint8_t, const char *, struct value *);
	int (*Commit)(void);
	int (*Fence)(const struct proc *, size_t, const struct info *, size_t);
	int (*Get)(const struct proc *, const char *, const struct info *, size_t, struct value **);
	const char *(*Error_string)(int);
} pmix;

static struct proc self;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256];

static void load(void)
{
	static const struct { const char *name; void *slot; } symbols[] = {
#define S(f) { "PMIx_" #f, &pmix.f }
		S(Init), S(Finalize), S(Put), S(Commit), S(Fence), S(Get), S(Error_string),
#undef S
	};
	/* Never closed: its threads outlive the call. */
	void *lib = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *e = dlerror();
		snprintf(missing, sizeof missing, "%s", e ? e : "dlopen failed");
		return;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(lib, symbols[i].name);
		if (!f) {
			snprintf(missing, sizeof missing, "libpmix.so.2 has no %s", symbols[i].name);
			return;
		}
		memcpy(symbols[i].slot, &f, sizeof f);
	}
}

int psrt_pmix_init(char *space, uint32_t *rank, char *why, size_t n)
{
	pthread_once(&once, load);
	if (missing[0]) {
		snprintf(why, n, "%s", missing);
		return PSRT_PMIX_NO_LIBRARY;
	}
	int status = pmix.Init(&self, NULL, 0);
	if (status)
		return status;
	memcpy(space, self.space, SPACE);
	space[SPACE - 1] = 0;
	*rank = self.rank;
	return 0;
}

int psrt_pmix_put(const char *key, const void *data, size_t n)
{
	struct value v;
	memset(&v, 0, sizeof v);
	v.type = T_BYTES;
	v.data.bo.bytes = (char *)data; /* copied by the library */
	v.data.bo.size = n;
	return pmix.Put(GLOBAL, key, &v);
}

static void option(struct info *i, const char *key)
{
	memset(i, 0, sizeof *i);
	snprintf(i->key, KEY, "%s", key);
}

static void option_timeout(struct info *i, int seconds)
{
	option(i, "pmix.timeout");
	i->value.type = T_INT;
	i->value.data.integer = seconds;
}

int psrt_pmix_fence(int timeout_seconds)
{
	int status = pmix.Commit();
	if (status)
		return status;
	struct info info[2];
	option(&info[0], "pmix.collect");
	info[0].value.type = T_BOOL;
	info[0].value.data.flag = true;
	option_timeout(&info[1], timeout_seconds);
	struct proc all = self;
	all.rank = EVERYBODY;
	return pmix.Fence(&all, 1, info, 2);
}

static void release(struct value *v)
{
	if (v->type == T_BYTES)
		free(v->data.bo.bytes);
	free(v);
}

int psrt_pmix_get(uint32_t rank, const char *key, int timeout_seconds, void *out, size_t room, size_t *n)
{
	struct proc p = self;
	p.rank = rank;
	struct info info;
	option_timeout(&info, timeout_seconds);
	struct value *v = NULL;
	int status = pmix.Get(&p, key, &info, 1, &v);
	if (status)
		return status;
	if (!v)
		return PSRT_PMIX_ODD;
	if (v->type != T_BYTES)
		status = PSRT_PMIX_ODD;
	else if (v->data.bo.size > room)
		status = PSRT_PMIX_TOO_LARGE;
	else {
		memcpy(out, v->data.bo.bytes, v->data.bo.size);
		*n = v->data.bo.size;
	}
	release(v);
	return status;
}

int psrt_pmix_job_size(uint32_t *size)
{
	struct proc p = self;
	p.rank = EVERYBODY;
	struct value *v = NULL;
	int status = pmix.Get(&p, "pmix.job.size", NULL, 0, &v);
	if (status)
		return status;
	if (!v)
		return PSRT_PMIX_ODD;
	if (v->type == T_UINT32)
		*size = v->data.uint32;
	else
		status = PSRT_PMIX_ODD;
	release(v);
	return status;
}

int psrt_pmix_finalize(void)
{
	return pmix.Finalize(NULL, 0);
}

const char *psrt_pmix_status(int status)
{
	const char *s = pmix.Error_string ? pmix.Error_string(status) : NULL;
	return s ? s : "";
}

/* A libcuda.so.1 for tests: one device whose memory is the host's, and which runs the
 * PTX that it is given (fake_text.h, fake_warps.h). Work is done as late as CUDA may do
 * it: when an event behind it is waited for or, one piece each time, when one is
 * asked about. So a buffer that is used again too early is seen by its bytes. A copy to
 * or from memory of the host that is not pinned returns when the stream has done it, as late
 * as the manual allows ("API synchronization behavior").
 *
 * Libraries that are made of this one (csrc/nccl/nccltest) give it work of their own by
 * psrt_fake_give.
 *
 * PSRT_FAKE_CUDA_BYTES   memory of the device (1 GiB)
 * PSRT_FAKE_CUDA_DEVICES how many there are (1)
 * PSRT_FAKE_CUDA_LIKE    set: all have one name, as like cards have
 * PSRT_FAKE_CUDA_FAIL    number of the launch from which on every call fails, as
 *                        after a fault of a kernel
 * PSRT_FAKE_CUDA_FAIL_ON number of the device whose launches these are (all devices)
 * PSRT_FAKE_CUDA_COPIES  so many copies between host and device go well; with the
 *                        next every call fails
 * PSRT_FAKE_CUDA_PINNED  bytes of the host that may be pinned (any); may change
 * PSRT_FAKE_CUDA_HANG    a file: while it is there, nobody who asks is told that an event
 *                        has passed, and neither a copy of memory that is not pinned returns nor
 *                        a call for which the driver waits for all work of the context;
 *                        may come and go
 * PSRT_FAKE_CUDA_UNFIT   number of a device that cannot be opened (none)
 * PSRT_FAKE_CUDA_FULL    number of a device without free memory (none)
 * PSRT_FAKE_CUDA_OLD     number of a device for which no text is compiled (none)
 * PSRT_FAKE_CUDA_TRACE   a file that is told, in a line each, which device's texts are compiled and
 *                        given back
 * PSRT_FAKE_CUDA_FENCED  the device's addresses are none of the host's: who touches
 *                        one from there dies */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_text.h"

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_INIT = 3, NO_DEVICE = 100, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH = 719 };
enum { DEVICES = 8, ARGUMENT = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t total = 1 << 30, used, pinned;
static long fails_from, fails_on = -1, launches, copies = -1;
static int devices = 1, unfit = -1, old = -1, full = -1, ready, broken, retained[DEVICES];
static _Thread_local int depth;
static _Thread_local int *entered[16]; /* contexts, depth of them */

enum what { COPY, FILL, KERNEL_RUN, EVENT, AWAIT, GIVEN };

struct op {
	struct op *next;
	enum what what;
	void *to;
	const void *from;
	size_t n;
	int byte, device;
	const struct function *function;
	unsigned blocks, threads;
	struct event *event;
	unsigned long turn;
	unsigned char argument[ARGUMENT];
	int (*given)(void *);
};

struct stream {
	struct op *first, **end;
	struct stream *next;
};

struct event {
	struct stream *stream; /* where it was recorded last */
	unsigned long recorded, passed;
};

struct block {
	struct block *next;
	size_t bytes;
	unsigned char *at; /* data, or a fenced address */
	int host, device;
	struct touch *touched; /* of fake_warps.h: one for each word */
	_Alignas(256) unsigned char data[];
};

static struct stream legacy = { NULL, &legacy.first, NULL };
static struct stream *streams = &legacy;
static struct stream *ended; /* events may name them */
static struct block *blocks;

/* Where the device's memory is fenced: addresses nobody may touch, and where the
 * bytes really are. Places are used once. */
static unsigned char *fence, *behind;
static size_t fenced, taken;

static void *real(const void *p)
{
	const unsigned char *c = p;
	return fence && c >= fence && c < fence + fenced ? behind + (c - fence) : (void *)p;
}

static void build_fence(void)
{
	fenced = 4 * total;
	fence = mmap(NULL, fenced, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	behind = mmap(NULL, fenced, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fence == MAP_FAILED || behind == MAP_FAILED)
		abort();
}

/* The default stream has no handle of its own, or 1; under 2 each thread has another. */
static struct stream *named(void *s)
{
	static _Thread_local struct stream *own;
	if ((size_t)s != 2)
		return s && (size_t)s != 1 ? s : &legacy;
	if (!own) {
		if (!(own = calloc(1, sizeof *own)))
			abort();
		own->end = &own->first;
		own->next = streams;
		streams = own;
	}
	return own;
}

/* Memory that is pinned as it is: a list, to see that what is let go was had. */
static struct { void *at; size_t bytes; } kept[4096];

#include "fake_warps.h"

static int step(struct stream *s);

/* 0 where work that was given is not over: it waits for others. */
static int until(struct event *e, unsigned long turn)
{
	while (e->passed < turn && e->stream && e->stream->first)
		if (!step(e->stream))
			return 0;
	return 1;
}

/* The first piece of a stream's work; 0: it is not over. */
static int step(struct stream *s)
{
	struct op *o = s->first;
	if (!o)
		return 1;
	switch (o->what) {
	case COPY: memmove(real(o->to), real(o->from), o->n); break;
	case FILL: memset(real(o->to), o->byte, o->n); break;
	case KERNEL_RUN:
		if (!broken)
			broken = run_function(o->function, o->device, o->blocks, o->threads, o->argument);
		break;
	case EVENT: o->event->passed = o->turn; break;
	case AWAIT:
		if (!until(o->event, o->turn))
			return 0;
		break;
	case GIVEN:
		if (!o->given(o->to))
			return 0;
		break;
	}
	s->first = o->next;
	if (!s->first)
		s->end = &s->first;
	free(o);
	return 1;
}

static void all(void)
{
	for (struct stream *s = streams; s; s = s->next)
		while (s->first && step(s))
			;
}

static struct op *give(struct stream *s, enum what what)
{
	struct op *o = calloc(1, sizeof *o);
	if (!o)
		abort();
	o->what = what;
	*s->end = o;
	s->end = &o->next;
	return o;
}

/* Every call but those of loading: under the lock, and in a context. */
#define CALL(body) do { \
	int r = OK; \
	if (!ready) \
		return NO_INIT; \
	if (depth < 1) \
		return 201; /* CUDA_ERROR_INVALID_CONTEXT */ \
	pthread_mutex_lock(&lock); \
	if (broken) \
		r = broken; \
	else \
		body \
	pthread_mutex_unlock(&lock); \
	return r; \
} while (0)

int cuInit(unsigned flags)
{
	const char *s;
	(void)flags;
	if ((s = getenv("PSRT_FAKE_CUDA_BYTES")))
		total = strtoull(s, NULL, 10);
	if ((s = getenv("PSRT_FAKE_CUDA_DEVICES")))
		devices = atoi(s);
	if ((s = getenv("PSRT_FAKE_CUDA_FAIL")))
		fails_from = atol(s);
	if ((s = getenv("PSRT_FAKE_CUDA_FAIL_ON")))
		fails_on = atol(s);
	if ((s = getenv("PSRT_FAKE_CUDA_COPIES")))
		copies = atol(s);
	if ((s = getenv("PSRT_FAKE_CUDA_UNFIT")))
		unfit = atoi(s);
	if ((s = getenv("PSRT_FAKE_CUDA_OLD")))
		old = atoi(s);
	if ((s = getenv("PSRT_FAKE_CUDA_FULL")))
		full = atoi(s);
	if (getenv("PSRT_FAKE_CUDA_FENCED") && !fence)
		build_fence();
	if (devices < 1)
		return NO_DEVICE;
	ready = 1;
	return OK;
}

int cuDriverGetVersion(int *v) { *v = 12040; return OK; }
int cuDeviceGetCount(int *n) { *n = devices; return ready ? OK : NO_INIT; }
int cuDeviceGet(int *d, int i) { *d = i; return i >= 0 && i < devices && i < DEVICES ? OK : INVALID; }
int cuDeviceGetName(char *s, int n, int d)
{
	if (getenv("PSRT_FAKE_CUDA_LIKE"))
		snprintf(s, n, "fake device");
	else
		snprintf(s, n, "fake device %d", d);
	return OK;
}

int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%02x:00.0", d + 1); return OK; }
int cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = total; return OK; }

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{ OK, "CUDA_SUCCESS", "no error" },
	{ INVALID, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address" },
	{ LAUNCH, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
};

static int look(int code, const char **s, int text)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*s = text ? errors[i].text : errors[i].name;
			return OK;
		}
	return INVALID;
}

int cuGetErrorName(int code, const char **s) { return look(code, s, 0); }
int cuGetErrorString(int code, const char **s) { return look(code, s, 1); }

int cuDevicePrimaryCtxRetain(void **c, int d)
{
	if (d == unfit)
		return NO_MEMORY;
	retained[d]++;
	*c = &retained[d];
	return OK;
}

int cuDevicePrimaryCtxRelease_v2(int d) { return retained[d]-- > 0 ? OK : INVALID; }
int cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) { *flags = 0; *active = retained[d] > 0; return OK; }
static int *current(void) { return depth > 0 ? entered[depth - 1] : NULL; }

int cuCtxPushCurrent_v2(void *c)
{
	if (!c || depth == 16)
		return INVALID;
	entered[depth++] = c;
	return OK;
}

int cuCtxPopCurrent_v2(void **c)
{
	*c = current();
	return depth-- > 0 ? OK : INVALID;
}

int cuCtxGetCurrent(void **c) { *c = current(); return OK; }

int cuCtxGetDevice(int *d) { *d = depth > 0 ? (int)(current() - retained) : 0; return depth > 0 ? OK : 201; }

/* Work of another library's: it is asked, with no lock of its own held for long, until it
 * says that it is over. */
int psrt_fake_give(void *stream, int (*given)(void *), void *argument)
{
	CALL({
		struct op *o = give(named(stream), GIVEN);
		o->given = given;
		o->to = argument;
	});
}

static int hangs(void)
{
	const char *hang = getenv("PSRT_FAKE_CUDA_HANG");
	return hang && !access(hang, F_OK);
}

/* Memory given back, kernels unloaded, memory of the host taken: not before all streams of the context
 * have done their work, whoever's they are. Others have the lock meanwhile. */
static void wait_for_context(void)
{
	while (hangs()) {
		pthread_mutex_unlock(&lock);
		usleep(100);
		pthread_mutex_lock(&lock);
	}
}

static size_t left(void) { return current() - retained == full ? 0 : total - used; }

int cuMemGetInfo_v2(size_t *f, size_t *t) { CALL({ *f = left(); *t = total; }); }

/* May so many bytes more be pinned? */
static int pinnable(size_t n)
{
	const char *s = getenv("PSRT_FAKE_CUDA_PINNED");
	return !s || pinned + n <= strtoull(s, NULL, 10);
}

static int take(void **at, size_t n, int host)
{
	if (!n)
		return INVALID;
	if (!host && n > left())
		return NO_MEMORY;
	if (host && !pinnable(n))
		return NO_MEMORY;
	size_t inside = fence && !host ? 0 : n;
	struct block *b = aligned_alloc(256, (sizeof *b + inside + 255) / 256 * 256);
	if (!b)
		return NO_MEMORY;
	b->at = b->data;
	if (!inside) {
		if (n > fenced - taken)
			abort(); /* a test that takes so much wants a larger fence */
		b->at = fence + taken;
		taken += (n + 255) / 256 * 256;
	}
	memset(real(b->at), 0xa5, n);
	b->bytes = n;
	b->touched = NULL;
	b->host = host;
	b->device = (int)(current() - retained);
	pinned += host ? n : 0;
	b->next = blocks;
	blocks = b;
	used += host ? 0 : n;
	*at = b->at;
	return OK;
}

static int drop(void *at, int host)
{
	wait_for_context();
	all();
	for (struct block **p = &blocks; *p; p = &(*p)->next) {
		struct block *b = *p;
		if (b->at != at || b->host != host)
			continue;
		*p = b->next;
		used -= host ? 0 : b->bytes;
		pinned -= host ? b->bytes : 0;
		forget(b);
		free(b);
		return OK;
	}
	return INVALID;
}

int cuMemAlloc_v2(unsigned long long *at, size_t n) { CALL({ void *p = NULL; r = take(&p, n, 0); *at = (unsigned long long)p; }); }
int cuMemFree_v2(unsigned long long at) { CALL({ r = drop((void *)at, 0); }); }
int cuMemHostAlloc(void **at, size_t n, unsigned f) { (void)f; CALL({ wait_for_context(); r = take(at, n, 1); }); }
int cuMemFreeHost(void *at) { CALL({ r = drop(at, 1); }); }

int cuMemHostRegister_v2(void *at, size_t n, unsigned f)
{
	(void)f;
	CALL({
		size_t i = 0;
		while (i < sizeof kept / sizeof *kept && kept[i].at)
			i++;
		if (!pinnable(n) || i == sizeof kept / sizeof *kept)
			r = NO_MEMORY;
		else {
			kept[i].at = at;
			kept[i].bytes = n;
			pinned += n;
		}
	});
}

int cuMemHostUnregister(void *at)
{
	CALL({
		wait_for_context();
		r = INVALID;
		for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
			if (kept[i].at == at) {
				kept[i].at = NULL;
				pinned -= kept[i].bytes;
				r = OK;
			}
	});
}

int cuPointerGetAttribute(void *to, int attribute, unsigned long long at)
{
	CALL({
		struct block *b = blocks;
		while (b && !(at >= (size_t)b->at && at - (size_t)b->at < b->bytes))
			b = b->next;
		if (!b)
			r = INVALID;
		else
			*(int *)to = attribute == 2 ? b->host ? 1 : 2 : b->device;
	});
}

#include "fake_rdma.h"

int cuStreamCreate(void **at, unsigned f)
{
	(void)f;
	CALL({
		struct stream *s = calloc(1, sizeof *s);
		s->end = &s->first;
		s->next = streams;
		streams = s;
		*at = s;
	});
}

int cuStreamDestroy_v2(void *at)
{
	CALL({
		struct stream **p = &streams;
		while (*p && *p != at)
			p = &(*p)->next;
		if (*p) {
			all();
			*p = ((struct stream *)at)->next;
			((struct stream *)at)->next = ended;
			ended = at;
		} else {
			r = INVALID;
		}
	});
}

int cuEventCreate(void **at, unsigned f) { (void)f; CALL({ *at = calloc(1, sizeof(struct event)); }); }
int cuEventDestroy_v2(void *at) { CALL({ all(); free(at); }); }

int cuEventRecord(void *at, void *stream)
{
	CALL({
		struct event *e = at;
		e->stream = named(stream);
		struct op *o = give(named(stream), EVENT);
		o->event = e;
		o->turn = ++e->recorded;
	});
}

int cuStreamWaitEvent(void *stream, void *at, unsigned f)
{
	(void)f;
	CALL({
		struct op *o = give(named(stream), AWAIT);
		o->event = at;
		o->turn = o->event->recorded;
	});
}

int cuEventQuery(void *at)
{
	CALL({
		struct event *e = at;
		int never = hangs();
		if (!never && e->passed < e->recorded && e->stream)
			step(e->stream);
		r = never || e->passed < e->recorded ? NOT_READY : OK;
	});
}

int cuEventSynchronize(void *at)
{
	CALL({
		struct event *e = at;
		while (!until(e, e->recorded)) {
			pthread_mutex_unlock(&lock);
			usleep(100);
			pthread_mutex_lock(&lock);
		}
	});
}

int cuEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; *ms = 1; return OK; }

#include "fake_copies.h"

static void trace(const char *what)
{
	const char *path = getenv("PSRT_FAKE_CUDA_TRACE");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f)
		return;
	fprintf(f, "%s %d\n", what, (int)(current() - retained));
	fclose(f);
}

int cuModuleLoadDataEx(void **m, const void *ptx, unsigned n, int *options, void **values)
{
	(void)n;
	(void)options;
	CALL({
		trace("compile");
		if (current() - retained == old) {
			snprintf(values[0], (size_t)values[1], "this device is too old");
			r = 209; /* CUDA_ERROR_NO_BINARY_FOR_GPU */
		} else if (!(*m = compile(ptx, values[0], (size_t)values[1])))
			r = 218; /* CUDA_ERROR_INVALID_PTX */
	});
}

static int finish_all(void) { CALL({ wait_for_context(); all(); trace("unload"); }); }

/* Kernels go with a device that has failed, too: nobody has them any more. */
int cuModuleUnload(void *m)
{
	int r = finish_all();
	if (depth >= 1)
		unload(m);
	return r;
}

int cuModuleGetFunction(void **f, void *m, const char *name)
{
	CALL({
		struct function *each = ((struct module *)m)->functions;
		while (each && strcmp(each->name, name))
			each = each->next;
		*f = each;
		r = each ? OK : NOT_FOUND;
	});
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **arguments, void **extra)
{
	(void)extra;
	CALL({
		const struct function *function = f;
		if (fails_from && (fails_on < 0 || current() - retained == fails_on) && ++launches >= fails_from)
			r = broken = LAUNCH;
		else if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || bx < 1 || bx > 1024 || function->argument > ARGUMENT)
			r = INVALID;
		else {
			struct op *o = give(named(s), KERNEL_RUN);
			o->function = function;
			o->device = (int)(current() - retained);
			o->blocks = gx;
			o->threads = bx;
			memcpy(o->argument, arguments[0], function->argument);
		}
	});
}

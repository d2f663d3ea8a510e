#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"

_Thread_local u64 psrt_thread;

enum { REFUSED = PSRT_ACCEL_NO_MEMORY + 1 };
enum { ALIGNED = 256 };

static const char *text(int32_t result)
{
	return result == PSRT_ACCEL_NO_MEMORY ? "out of memory" : "no kernel of dense layers has this number and argument";
}

static int32_t count(int32_t *devices) { *devices = 1; return 0; }
static int32_t open_device(int32_t device, void **at) { *at = NULL; return device == 0 ? 0 : REFUSED; }
static int32_t close_device(void *at) { (void)at; return 0; }
static int32_t room(void *at, uint64_t *f, uint64_t *total) { (void)at; *f = *total = SIZE_MAX / 2; return 0; }

static int32_t host_alloc(void *at, uint64_t bytes, void **address)
{
	(void)at;
	*address = bytes < SIZE_MAX / 2 ? aligned_alloc(ALIGNED, (bytes + ALIGNED - 1) / ALIGNED * ALIGNED) : NULL;
	return *address ? 0 : PSRT_ACCEL_NO_MEMORY;
}

static int32_t host_free(void *at, void *address) { (void)at; free(address); return 0; }

static int32_t alloc(void *at, uint64_t bytes, uint64_t *address)
{
	void *p;
	int32_t e = host_alloc(at, bytes, &p);
	*address = (uint64_t)p;
	return e;
}

static int32_t drop(void *at, uint64_t address) { return host_free(at, (void *)address); }

/* Work is done when it is given: streams and events have nothing to keep. */
static int32_t made(void *at, void **what) { (void)at; *what = NULL; return 0; }
static int32_t end(void *at, void *what) { (void)at; (void)what; return 0; }
static int32_t record(void *at, void *e, void *s) { (void)at; (void)e; (void)s; return 0; }
static int32_t passed(void *at, void *e, int32_t *yes) { (void)at; (void)e; *yes = 1; return 0; }
static int32_t to_device(void *at, void *s, uint64_t to, const void *from, uint64_t n) { (void)at; (void)s; memcpy((void *)to, from, n); return 0; }
static int32_t to_host(void *at, void *s, void *to, uint64_t from, uint64_t n) { (void)at; (void)s; memcpy(to, (void *)from, n); return 0; }

static int32_t rows_to_host(void *at, void *s, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to_host(at, s, (char *)to + i * pitch, from + i * width, width);
	return 0;
}

static int32_t fill(void *at, void *s, uint64_t to, int32_t byte, uint64_t n) { (void)at; (void)s; memset((void *)to, byte, n); return 0; }

static int32_t run(void *at, void *s, int32_t kernel, uint64_t n, const void *argument, uint64_t bytes)
{
	(void)at;
	(void)s;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"))
		return psrt_host_run_fused(kernel, n, argument, bytes) ? 0 : REFUSED;
#endif
	return psrt_host_run_plain(kernel, n, argument, bytes) ? 0 : REFUSED;
}

const psrt_accel_ops *psrt_host_table(void)
{
	static const psrt_accel_ops ops = {
		.size = sizeof ops, .abi = PSRT_ACCEL_ABI, .name = "host", .text = text, .count = count,
		.open = open_device, .close = close_device, .room = room, .alloc = alloc, .free = drop,
		.host_alloc = host_alloc, .host_free = host_free, .stream = made, .stream_end = end, .event = made,
		.event_end = end, .record = record, .passed = passed, .to_device = to_device, .to_host = to_host,
		.rows_to_host = rows_to_host, .fill = fill, .run = run,
	};
	return &ops;
}

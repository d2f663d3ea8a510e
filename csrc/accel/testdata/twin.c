/* An accelerator whose memory is the host's and whose kernels are csrc/ptx's source,
 * compiled as C: what a library that psrt_accel.h describes looks like, and the one that
 * tests load. Work is done when it is given.
 *
 *   cc -O2 -ffp-contract=off -fPIC -shared -I csrc/accel -I csrc/ptx -o twin.so csrc/accel/testdata/twin.c -lm
 *
 * PSRT_TWIN_BYTES  memory of the device (1 GiB)
 * PSRT_TWIN_FAIL   number of the kernel's run from which on every call fails
 *
 * -DNAP_MS=N makes it slow: it sleeps so long before a kernel. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "psrt_accel.h"
#include "rows.cu"

_Thread_local u64 psrt_thread;

_Static_assert(sizeof(struct batch) == sizeof(psrt_accel_batch), "the header's batch is the kernels'");

enum { FAILED = 2 };

/* Of all devices, each of which a thread of its own may call. */
static _Atomic uint64_t used;
static atomic_long runs;
static atomic_int broken;

struct block {
	uint64_t bytes;
	_Alignas(256) unsigned char data[];
};

static const char *text(int32_t result) { return result == PSRT_ACCEL_NO_MEMORY ? "out of memory" : "the twin was told to fail"; }

static uint64_t total(void)
{
	const char *s = getenv("PSRT_TWIN_BYTES");
	return s ? strtoull(s, NULL, 10) : (uint64_t)1 << 30;
}

static int32_t count(int32_t *devices) { *devices = 2; return 0; }
static int32_t open_device(int32_t device, void **at) { *at = NULL; return device < 2 ? 0 : FAILED; }
static int32_t close_device(void *at) { (void)at; return broken; }
static int32_t room(void *at, uint64_t *f, uint64_t *t) { (void)at; *t = total(); *f = *t - used; return broken; }

static int32_t take(uint64_t bytes, void **address)
{
	struct block *b = aligned_alloc(256, (sizeof *b + bytes + 255) / 256 * 256);
	if (!b)
		return PSRT_ACCEL_NO_MEMORY;
	b->bytes = bytes;
	memset(b->data, 0xa5, bytes);
	*address = b->data;
	return broken;
}

static int32_t alloc(void *at, uint64_t bytes, uint64_t *address)
{
	void *p = NULL;
	uint64_t before = used;
	(void)at;
	do {
		if (bytes > total() - before)
			return PSRT_ACCEL_NO_MEMORY;
	} while (!atomic_compare_exchange_weak(&used, &before, before + bytes));
	int32_t e = take(bytes, &p);
	used -= p ? 0 : bytes;
	*address = (uint64_t)p;
	return e;
}

static struct block *block_of(void *p) { return (struct block *)((unsigned char *)p - offsetof(struct block, data)); }

static int32_t drop(void *at, uint64_t address)
{
	struct block *b = block_of((void *)address);
	(void)at;
	used -= b->bytes;
	free(b);
	return broken;
}

static int32_t host_alloc(void *at, uint64_t bytes, void **address) { (void)at; return take(bytes, address); }
static int32_t host_free(void *at, void *address) { (void)at; free(block_of(address)); return broken; }
static int32_t stream(void *at, void **s) { (void)at; *s = NULL; return broken; }
static int32_t end(void *at, void *what) { (void)at; free(what); return broken; }
static int32_t timed_event(void *at, void **e) { (void)at; *e = calloc(1, sizeof(struct timespec)); return *e ? broken : PSRT_ACCEL_NO_MEMORY; }

/* Other events are none: all before them is over. */
static int32_t record(void *at, void *e, void *s)
{
	(void)at;
	(void)s;
	if (e)
		clock_gettime(CLOCK_MONOTONIC, e);
	return broken;
}

static int32_t between(void *at, void *first, void *last, float *ms)
{
	const struct timespec *a = first, *b = last;
	(void)at;
	*ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
	return broken;
}

static int32_t await(void *at, void *s, void *e) { (void)at; (void)s; (void)e; return broken; }
static int32_t passed(void *at, void *e, int32_t *yes) { (void)at; (void)e; *yes = 1; return broken; }

static int32_t to_device(void *at, void *s, uint64_t to, const void *from, uint64_t n) { (void)at; (void)s; memcpy((void *)to, from, n); return broken; }
static int32_t to_host(void *at, void *s, void *to, uint64_t from, uint64_t n) { (void)at; (void)s; memcpy(to, (void *)from, n); return broken; }

static int32_t rows_to_host(void *at, void *s, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to_host(at, s, (char *)to + i * pitch, from + i * width, width);
	return broken;
}

static int32_t fill(void *at, void *s, uint64_t to, int32_t byte, uint64_t n) { (void)at; (void)s; memset((void *)to, byte, n); return broken; }

#define KERNEL_OF(kernel, type) do { \
	type x; \
	if (bytes != sizeof x) \
		return FAILED; \
	memcpy(&x, argument, sizeof x); \
	for (psrt_thread = 0; psrt_thread < n * LANES; psrt_thread += LANES) \
		kernel(x); \
} while (0)

static int32_t run(void *at, void *s, int32_t kernel, uint64_t n, const void *argument, uint64_t bytes)
{
	const char *fails = getenv("PSRT_TWIN_FAIL");
	(void)at;
	(void)s;
#ifdef NAP_MS
	nanosleep(&(struct timespec){ NAP_MS / 1000, NAP_MS % 1000 * 1000000L }, NULL);
#endif
	if (fails && ++runs >= atol(fails))
		broken = FAILED;
	switch (kernel) {
	case PSRT_ACCEL_GATHER_ROWS: KERNEL_OF(psrt_gather_rows, struct batch); break;
	case PSRT_ACCEL_PUT_ROWS: KERNEL_OF(psrt_put_rows, struct batch); break;
	case PSRT_ACCEL_UPDATE_ROWS: KERNEL_OF(psrt_update_rows, struct update); break;
	case PSRT_ACCEL_GATHER_PARTS: KERNEL_OF(psrt_gather_parts, struct parts_gather); break;
	case PSRT_ACCEL_UPDATE_PARTS: KERNEL_OF(psrt_update_parts, struct parts_update); break;
	case PSRT_ACCEL_FIND_ROWS: KERNEL_OF(psrt_find_rows, struct find); break;
	case PSRT_ACCEL_FIND_PARTS: KERNEL_OF(psrt_find_parts, struct parts_find); break;
	case PSRT_ACCEL_PRODUCT: KERNEL_OF(psrt_product, struct product); break;
	case PSRT_ACCEL_ACTIVATE: KERNEL_OF(psrt_activate, struct layer); break;
	case PSRT_ACCEL_ACTIVATE_BACK: KERNEL_OF(psrt_activate_back, struct layer); break;
	case PSRT_ACCEL_NORMALIZE: KERNEL_OF(psrt_normalize, struct layer); break;
	case PSRT_ACCEL_NORMALIZE_BACK: KERNEL_OF(psrt_normalize_back, struct layer); break;
	case PSRT_ACCEL_OUTPUT: KERNEL_OF(psrt_output, struct layer); break;
	case PSRT_ACCEL_OUTPUT_BACK: KERNEL_OF(psrt_output_back, struct layer); break;
	case PSRT_ACCEL_CROSS: KERNEL_OF(psrt_cross, struct layer); break;
	case PSRT_ACCEL_CROSS_BACK: KERNEL_OF(psrt_cross_back, struct layer); break;
	case PSRT_ACCEL_ADD: KERNEL_OF(psrt_add, struct layer); break;
	case PSRT_ACCEL_LOSS: KERNEL_OF(psrt_loss, struct layer); break;
	default: return FAILED;
	}
	return broken;
}

#ifndef ABI
#define ABI PSRT_ACCEL_ABI
#endif
#ifndef SIZE /* of a library that was built with the header of before wait */
#define SIZE sizeof(psrt_accel_ops)
#endif
#ifndef RUN
#define RUN run
#endif

const psrt_accel_ops *psrt_accel_get(void)
{
	static const psrt_accel_ops ops = {
		.size = SIZE, .abi = ABI, .name = "host twin in a library", .text = text, .count = count,
		.open = open_device, .close = close_device, .room = room, .alloc = alloc, .free = drop,
		.host_alloc = host_alloc, .host_free = host_free, .stream = stream, .stream_end = end, .event = stream,
		.event_end = end, .record = record, .passed = passed, .to_device = to_device, .to_host = to_host,
		.rows_to_host = rows_to_host, .fill = fill, .run = RUN, .wait = await,
		.timed_event = timed_event, .between = between,
	};
	return &ops;
}

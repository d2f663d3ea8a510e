#include "driver.h"

#include <string.h>

/* Contexts are a thread's, and Go's goroutines change theirs: each call enters the
 * context and leaves it. */
#define IN(p, call) do { \
	int e_ = psrt_cu.push((p)->context); \
	if (e_) \
		return e_; \
	e_ = (call); \
	void *left_; \
	int f_ = psrt_cu.pop(&left_); \
	return e_ ? e_ : f_; \
} while (0)

int32_t psrt_cuda_version(int32_t *version) { return psrt_cu.version(version); }
int32_t psrt_cuda_count(int32_t *count) { return psrt_cu.count(count); }

int32_t psrt_cuda_describe(int32_t device, char *name, size_t n, char *bus, size_t m, uint64_t *bytes, int32_t *major, int32_t *minor)
{
	int d, e;
	size_t size;
	if ((e = psrt_cu.device(&d, device)) || (e = psrt_cu.name(name, (int)n, d)) || (e = psrt_cu.bus(bus, (int)m, d)) ||
	    (e = psrt_cu.bytes(&size, d)) || (e = psrt_cu.attribute(major, PSRT_CU_MAJOR, d)))
		return e;
	*bytes = size;
	return psrt_cu.attribute(minor, PSRT_CU_MINOR, d);
}

int32_t psrt_cuda_retain(int32_t device, psrt_cuda_place *place)
{
	CUresult e = psrt_cu.device(&place->device, device);
	return e ? e : psrt_cu.retain(&place->context, place->device);
}

int32_t psrt_cuda_release(const psrt_cuda_place *place) { return psrt_cu.release(place->device); }

int32_t psrt_cuda_enter(const psrt_cuda_place *p) { return psrt_cu.push(p->context); }

int32_t psrt_cuda_leave(void)
{
	void *left;
	return psrt_cu.pop(&left);
}

static int room(uint64_t *free_bytes, uint64_t *total)
{
	size_t f, t;
	int e = psrt_cu.room(&f, &t);
	*free_bytes = f;
	*total = t;
	return e;
}

int32_t psrt_cuda_room(const psrt_cuda_place *p, uint64_t *free_bytes, uint64_t *total) { IN(p, room(free_bytes, total)); }

static int alloc(uint64_t bytes, uint64_t *at)
{
	CUdeviceptr d = 0;
	int e = psrt_cu.alloc(&d, bytes);
	*at = d;
	return e;
}

int32_t psrt_cuda_alloc(const psrt_cuda_place *p, uint64_t bytes, uint64_t *at) { IN(p, alloc(bytes, at)); }
int32_t psrt_cuda_free(const psrt_cuda_place *p, uint64_t at) { IN(p, psrt_cu.free(at)); }
int32_t psrt_cuda_host_alloc(const psrt_cuda_place *p, uint64_t bytes, void **at) { IN(p, psrt_cu.host_alloc(at, bytes, PSRT_CU_PORTABLE)); }
int32_t psrt_cuda_host_free(const psrt_cuda_place *p, void *at) { IN(p, psrt_cu.host_free(at)); }

int32_t psrt_cuda_pin(const psrt_cuda_place *p, void *at, uint64_t bytes) { IN(p, psrt_cu.pin(at, bytes, PSRT_CU_PORTABLE)); }
int32_t psrt_cuda_unpin(const psrt_cuda_place *p, void *at) { IN(p, psrt_cu.unpin(at)); }

static int whose(uint64_t at, int32_t *device)
{
	unsigned type = 0;
	int e = psrt_cu.pointer(&type, PSRT_CU_MEMORY_TYPE, at);
	if (e)
		return e;
	if (type != PSRT_CU_OF_DEVICE && type != PSRT_CU_UNIFIED)
		return PSRT_CU_INVALID_VALUE;
	return psrt_cu.pointer(device, PSRT_CU_ORDINAL, at);
}

/* An address is asked about in a context, any one: the thread's, else a primary one
 * that somebody has, as memory of devices without one there is none. */
int32_t psrt_cuda_whose(uint64_t at, int32_t *device)
{
	void *current = NULL;
	int count = 0, e;
	if ((e = psrt_cu.current(&current)) || (e = psrt_cu.count(&count)))
		return e;
	if (current)
		return whose(at, device);
	for (int i = 0; i < count; i++) {
		psrt_cuda_place p;
		unsigned flags;
		int active = 0, d;
		if ((e = psrt_cu.device(&d, i)) || (e = psrt_cu.state(d, &flags, &active)))
			return e;
		if (!active)
			continue;
		if ((e = psrt_cuda_retain(i, &p)))
			return e;
		if (!(e = psrt_cu.push(p.context))) {
			e = whose(at, device);
			psrt_cu.pop(&current);
		}
		psrt_cuda_release(&p);
		return e;
	}
	return PSRT_CU_INVALID_VALUE;
}

int32_t psrt_cuda_dmabuf(const psrt_cuda_place *p, uint64_t at, uint64_t bytes, int32_t *fd)
{
	if (!psrt_cu.address_handle)
		return PSRT_CU_NOT_SUPPORTED;
	IN(p, psrt_cu.address_handle(fd, at, bytes, PSRT_CU_DMABUF, 0));
}

int32_t psrt_cuda_writes(const psrt_cuda_place *p, int32_t *ordered, int32_t *flushes)
{
	int ordering = 0, options = 0, e;
	/* A driver that does not know the question flushes nothing. */
	if ((e = psrt_cu.attribute(&ordering, PSRT_CU_WRITES_ORDERING, p->device)) && e != PSRT_CU_INVALID_VALUE)
		return e;
	if ((e = psrt_cu.attribute(&options, PSRT_CU_FLUSH_OPTIONS, p->device)) && e != PSRT_CU_INVALID_VALUE)
		return e;
	*ordered = ordering >= PSRT_CU_ORDERED_FOR_OWNER;
	*flushes = psrt_cu.flush && (options & PSRT_CU_FLUSH_BY_HOST);
	return 0;
}

int32_t psrt_cuda_flush(const psrt_cuda_place *p)
{
	if (!psrt_cu.flush)
		return PSRT_CU_NOT_SUPPORTED;
	IN(p, psrt_cu.flush(PSRT_CU_FLUSH_CONTEXT, PSRT_CU_FLUSH_TO_OWNER));
}

int32_t psrt_cuda_stream(const psrt_cuda_place *p, void **stream) { IN(p, psrt_cu.stream(stream, PSRT_CU_NON_BLOCKING)); }
int32_t psrt_cuda_stream_end(const psrt_cuda_place *p, void *stream) { IN(p, psrt_cu.stream_end(stream)); }
int32_t psrt_cuda_stream_wait(const psrt_cuda_place *p, void *stream, void *event) { IN(p, psrt_cu.stream_wait(stream, event, 0)); }

int32_t psrt_cuda_event(const psrt_cuda_place *p, int32_t timed, void **event)
{
	/* Whoever waits sleeps: cores are few. */
	IN(p, psrt_cu.event(event, PSRT_CU_BLOCKING_SYNC | (timed ? 0 : PSRT_CU_NO_TIMING)));
}

int32_t psrt_cuda_event_end(const psrt_cuda_place *p, void *event) { IN(p, psrt_cu.event_end(event)); }
int32_t psrt_cuda_record(const psrt_cuda_place *p, void *event, void *stream) { IN(p, psrt_cu.record(event, stream)); }

static int passed(void *event, int32_t *done)
{
	int e = psrt_cu.query(event);
	*done = e == 0;
	return e == PSRT_CU_NOT_READY ? 0 : e;
}

int32_t psrt_cuda_passed(const psrt_cuda_place *p, void *event, int32_t *done) { IN(p, passed(event, done)); }
int32_t psrt_cuda_await(const psrt_cuda_place *p, void *event) { IN(p, psrt_cu.await(event)); }
int32_t psrt_cuda_between(const psrt_cuda_place *p, void *first, void *last, float *ms) { IN(p, psrt_cu.between(ms, first, last)); }

int32_t psrt_cuda_to_device(const psrt_cuda_place *p, uint64_t to, const void *from, uint64_t bytes, void *stream) { IN(p, psrt_cu.to_device(to, from, bytes, stream)); }
int32_t psrt_cuda_to_host(const psrt_cuda_place *p, void *to, uint64_t from, uint64_t bytes, void *stream) { IN(p, psrt_cu.to_host(to, from, bytes, stream)); }

static int rows_to_host(void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n, void *stream)
{
	const struct psrt_cu_rect r = {
		.from = {.type = PSRT_CU_OF_DEVICE, .device = from, .pitch = width},
		.to = {.type = PSRT_CU_OF_HOST, .host = to, .pitch = pitch},
		.width = width,
		.height = n,
	};
	return psrt_cu.rows_to_host(&r, stream);
}

int32_t psrt_cuda_rows_to_host(const psrt_cuda_place *p, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n, void *stream) { IN(p, rows_to_host(to, pitch, from, width, n, stream)); }
int32_t psrt_cuda_within(const psrt_cuda_place *p, uint64_t to, uint64_t from, uint64_t bytes, void *stream) { IN(p, psrt_cu.within(to, from, bytes, stream)); }
int32_t psrt_cuda_fill(const psrt_cuda_place *p, uint64_t at, int32_t byte, uint64_t bytes, void *stream) { IN(p, psrt_cu.fill(at, (unsigned char)byte, bytes, stream)); }

#define STREAM(s) ((void *)(uintptr_t)(s))

static int copy_in(uint64_t to, const void *from, uint64_t bytes, uint64_t stream, void *event)
{
	CUresult e = psrt_cu.to_device(to, from, bytes, STREAM(stream));
	return e ? e : psrt_cu.record(event, STREAM(stream));
}

static int copy_out(void *to, uint64_t from, uint64_t bytes, uint64_t stream, void *event)
{
	CUresult e = psrt_cu.to_host(to, from, bytes, STREAM(stream));
	return e ? e : psrt_cu.record(event, STREAM(stream));
}

int32_t psrt_cuda_copy_in(const psrt_cuda_place *p, uint64_t to, const void *from, uint64_t bytes, uint64_t stream, void *event) { IN(p, copy_in(to, from, bytes, stream, event)); }
int32_t psrt_cuda_copy_out(const psrt_cuda_place *p, void *to, uint64_t from, uint64_t bytes, uint64_t stream, void *event) { IN(p, copy_out(to, from, bytes, stream, event)); }

int32_t psrt_cuda_mark(const psrt_cuda_place *p, uint64_t stream, void *event) { IN(p, psrt_cu.record(event, STREAM(stream))); }

int32_t psrt_cuda_module(const psrt_cuda_place *p, const char *ptx, char *log, size_t n, void **module)
{
	CUjit_option options[] = {PSRT_CU_LOG, PSRT_CU_LOG_BYTES};
	void *values[] = {log, (void *)(uintptr_t)n};
	if (n)
		log[0] = 0;
	IN(p, psrt_cu.module(module, ptx, 2, options, values));
}

int32_t psrt_cuda_module_end(const psrt_cuda_place *p, void *module) { IN(p, psrt_cu.module_end(module)); }
int32_t psrt_cuda_function(const psrt_cuda_place *p, void *module, const char *name, void **function) { IN(p, psrt_cu.function(function, module, name)); }

int32_t psrt_cuda_launch(const psrt_cuda_place *p, void *function, uint32_t blocks, uint32_t threads, void *argument, void *stream)
{
	void *arguments[] = {argument};
	IN(p, psrt_cu.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL));
}

#ifndef PSRT_CUDA_H
#define PSRT_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* What the driver's library gives, by our own prototypes: handles are pointers,
 * results 0 or an error. Addresses on a device are numbers. */
typedef struct {
	void *context;
	int32_t device;
} psrt_cuda_place;

/* 0, or -1 with why. path is a library's file; the first that loads stays for the
 * life of the process. */
int32_t psrt_cuda_load(const char *path, char *why, size_t n);
int32_t psrt_cuda_has_dmabuf(void);
/* Writes "NAME: text". */
void psrt_cuda_error_text(int32_t result, char *text, size_t n);

int32_t psrt_cuda_version(int32_t *version);
int32_t psrt_cuda_count(int32_t *count);
int32_t psrt_cuda_describe(int32_t device, char *name, size_t n, char *bus, size_t m, uint64_t *bytes, int32_t *major, int32_t *minor);

/* The primary context, which PyTorch uses, too. All calls below enter it and leave
 * it again: the thread's own stays as it was. */
int32_t psrt_cuda_retain(int32_t device, psrt_cuda_place *place);
int32_t psrt_cuda_release(const psrt_cuda_place *place);

/* The context for the thread itself, until it is left. */
int32_t psrt_cuda_enter(const psrt_cuda_place *p);
int32_t psrt_cuda_leave(void);

int32_t psrt_cuda_room(const psrt_cuda_place *p, uint64_t *free_bytes, uint64_t *total);
int32_t psrt_cuda_alloc(const psrt_cuda_place *p, uint64_t bytes, uint64_t *at);
int32_t psrt_cuda_free(const psrt_cuda_place *p, uint64_t at);
int32_t psrt_cuda_host_alloc(const psrt_cuda_place *p, uint64_t bytes, void **at);
int32_t psrt_cuda_host_free(const psrt_cuda_place *p, void *at);
/* Has memory of the host that is there already pinned, and lets it go. */
int32_t psrt_cuda_pin(const psrt_cuda_place *p, void *at, uint64_t bytes);
int32_t psrt_cuda_unpin(const psrt_cuda_place *p, void *at);
/* The device that has the memory at an address: of any context of this process. */
int32_t psrt_cuda_whose(uint64_t at, int32_t *device);
int32_t psrt_cuda_dmabuf(const psrt_cuda_place *p, uint64_t at, uint64_t bytes, int32_t *fd);

/* Whether writes of a network card are seen by work that is given to the device after they
 * are over: as they are, or when psrt_cuda_flush has returned. */
int32_t psrt_cuda_writes(const psrt_cuda_place *p, int32_t *ordered, int32_t *flushes);
int32_t psrt_cuda_flush(const psrt_cuda_place *p);

int32_t psrt_cuda_stream(const psrt_cuda_place *p, void **stream);
int32_t psrt_cuda_stream_end(const psrt_cuda_place *p, void *stream);
int32_t psrt_cuda_stream_wait(const psrt_cuda_place *p, void *stream, void *event);
int32_t psrt_cuda_event(const psrt_cuda_place *p, int32_t timed, void **event);
int32_t psrt_cuda_event_end(const psrt_cuda_place *p, void *event);
int32_t psrt_cuda_record(const psrt_cuda_place *p, void *event, void *stream);
/* done is 1 when all before it is over. */
int32_t psrt_cuda_passed(const psrt_cuda_place *p, void *event, int32_t *done);
int32_t psrt_cuda_await(const psrt_cuda_place *p, void *event);
int32_t psrt_cuda_between(const psrt_cuda_place *p, void *first, void *last, float *ms);

int32_t psrt_cuda_to_device(const psrt_cuda_place *p, uint64_t to, const void *from, uint64_t bytes, void *stream);
int32_t psrt_cuda_to_host(const psrt_cuda_place *p, void *to, uint64_t from, uint64_t bytes, void *stream);
/* n rows of width bytes that lie together, each pitch bytes further on at the host. */
int32_t psrt_cuda_rows_to_host(const psrt_cuda_place *p, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n, void *stream);
int32_t psrt_cuda_within(const psrt_cuda_place *p, uint64_t to, uint64_t from, uint64_t bytes, void *stream);
int32_t psrt_cuda_fill(const psrt_cuda_place *p, uint64_t at, int32_t byte, uint64_t bytes, void *stream);

/* A copy on a stream of the caller's, whose handle is a number (0: the default
 * stream), and an event behind it. */
int32_t psrt_cuda_copy_in(const psrt_cuda_place *p, uint64_t to, const void *from, uint64_t bytes, uint64_t stream, void *event);
int32_t psrt_cuda_copy_out(const psrt_cuda_place *p, void *to, uint64_t from, uint64_t bytes, uint64_t stream, void *event);
/* The event alone. */
int32_t psrt_cuda_mark(const psrt_cuda_place *p, uint64_t stream, void *event);

/* PTX text, ended by 0; what the compiler in the driver says is written to log. */
int32_t psrt_cuda_module(const psrt_cuda_place *p, const char *ptx, char *log, size_t n, void **module);
int32_t psrt_cuda_module_end(const psrt_cuda_place *p, void *module);
int32_t psrt_cuda_function(const psrt_cuda_place *p, void *module, const char *name, void **function);
/* One argument, a structure passed by value. */
int32_t psrt_cuda_launch(const psrt_cuda_place *p, void *function, uint32_t blocks, uint32_t threads, void *argument, void *stream);

#endif

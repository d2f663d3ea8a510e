#include "load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The members of version 1 end with run. */
#define OPS_V1 (offsetof(psrt_accel_ops, run) + sizeof(void *))

static int whole(const psrt_accel_ops *o)
{
	return o->text && o->count && o->open && o->close && o->room && o->alloc && o->free && o->host_alloc && o->host_free &&
	       o->stream && o->stream_end && o->event && o->event_end && o->record && o->passed && o->to_device && o->to_host &&
	       o->rows_to_host && o->fill && o->run;
}

int psrt_accel_check(const psrt_accel_ops *o, char *why, size_t room)
{
	if (!o)
		snprintf(why, room, "there is no table: psrt_accel_get returned NULL");
	else if (o->abi != PSRT_ACCEL_ABI)
		snprintf(why, room, "it was built for version %u of psrt_accel.h, this psrt knows %u: build it with the header of this psrt", o->abi, PSRT_ACCEL_ABI);
	else if (o->size < OPS_V1)
		snprintf(why, room, "its psrt_accel_ops says size %u, want at least %zu: set size to sizeof(psrt_accel_ops)", o->size, OPS_V1);
	else if (!o->name || !o->name[0] || strnlen(o->name, 64) > 63)
		snprintf(why, room, "its name must be 1 to 63 bytes");
	else if (!whole(o))
		snprintf(why, room, "%s: every function of psrt_accel_ops must be set", o->name);
	else
		return 1;
	return 0;
}

const psrt_accel_ops *psrt_accel_load(const char *path, char *why, size_t room)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *e = dlerror();
		size_t n = strlen(path);
		if (e && !strncmp(e, path, n) && !strncmp(e + n, ": ", 2)) /* the caller names it */
			e += n + 2;
		snprintf(why, room, "%s", e ? e : "dlopen failed");
		return NULL;
	}
	const psrt_accel_ops *(*get)(void) = (const psrt_accel_ops *(*)(void))dlsym(library, "psrt_accel_get");
	if (!get)
		snprintf(why, room, "it exports no psrt_accel_get");
	const psrt_accel_ops *o = get ? get() : NULL;
	if (get && psrt_accel_check(o, why, room))
		return o;
	dlclose(library);
	return NULL;
}

const char *psrt_accel_text(const psrt_accel_ops *o, int32_t result) { return o->text(result); }
int32_t psrt_accel_count(const psrt_accel_ops *o, int32_t *devices) { return o->count(devices); }
int32_t psrt_accel_open(const psrt_accel_ops *o, int32_t device, uintptr_t *at) { return o->open(device, (void **)at); }
int32_t psrt_accel_close(const psrt_accel_ops *o, uintptr_t at) { return o->close((void *)at); }
int32_t psrt_accel_room(const psrt_accel_ops *o, uintptr_t at, uint64_t *free_bytes, uint64_t *total) { return o->room((void *)at, free_bytes, total); }
int32_t psrt_accel_alloc(const psrt_accel_ops *o, uintptr_t at, uint64_t bytes, uint64_t *address) { return o->alloc((void *)at, bytes, address); }
int32_t psrt_accel_free(const psrt_accel_ops *o, uintptr_t at, uint64_t address) { return o->free((void *)at, address); }
int32_t psrt_accel_host_alloc(const psrt_accel_ops *o, uintptr_t at, uint64_t bytes, void **address) { return o->host_alloc((void *)at, bytes, address); }
int32_t psrt_accel_host_free(const psrt_accel_ops *o, uintptr_t at, void *address) { return o->host_free((void *)at, address); }
int32_t psrt_accel_stream(const psrt_accel_ops *o, uintptr_t at, uintptr_t *stream) { return o->stream((void *)at, (void **)stream); }
int32_t psrt_accel_stream_end(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream) { return o->stream_end((void *)at, (void *)stream); }
int32_t psrt_accel_event(const psrt_accel_ops *o, uintptr_t at, uintptr_t *event) { return o->event((void *)at, (void **)event); }
int32_t psrt_accel_event_end(const psrt_accel_ops *o, uintptr_t at, uintptr_t event) { return o->event_end((void *)at, (void *)event); }
int32_t psrt_accel_record(const psrt_accel_ops *o, uintptr_t at, uintptr_t event, uintptr_t stream) { return o->record((void *)at, (void *)event, (void *)stream); }
int32_t psrt_accel_passed(const psrt_accel_ops *o, uintptr_t at, uintptr_t event, int32_t *passed) { return o->passed((void *)at, (void *)event, passed); }
int32_t psrt_accel_to_device(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, uint64_t to, const void *from, uint64_t bytes) { return o->to_device((void *)at, (void *)stream, to, from, bytes); }
int32_t psrt_accel_to_host(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, void *to, uint64_t from, uint64_t bytes) { return o->to_host((void *)at, (void *)stream, to, from, bytes); }
int32_t psrt_accel_rows_to_host(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n) { return o->rows_to_host((void *)at, (void *)stream, to, pitch, from, width, n); }
int32_t psrt_accel_fill(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, uint64_t to, int32_t byte, uint64_t bytes) { return o->fill((void *)at, (void *)stream, to, byte, bytes); }
int32_t psrt_accel_run(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, int32_t kernel, uint64_t n, const void *argument, uint64_t bytes) { return o->run((void *)at, (void *)stream, kernel, n, argument, bytes); }
int32_t psrt_accel_waits(const psrt_accel_ops *o) { return o->size >= offsetof(psrt_accel_ops, wait) + sizeof o->wait && o->wait; }
int32_t psrt_accel_wait(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, uintptr_t event) { return o->wait((void *)at, (void *)stream, (void *)event); }
int32_t psrt_accel_times(const psrt_accel_ops *o) { return o->size >= offsetof(psrt_accel_ops, between) + sizeof o->between && o->timed_event && o->between; }
int32_t psrt_accel_timed_event(const psrt_accel_ops *o, uintptr_t at, uintptr_t *event) { return o->timed_event((void *)at, (void **)event); }
int32_t psrt_accel_between(const psrt_accel_ops *o, uintptr_t at, uintptr_t first, uintptr_t last, float *ms) { return o->between((void *)at, (void *)first, (void *)last, ms); }

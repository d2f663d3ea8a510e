#ifndef PSRT_ACCEL_LOAD_H
#define PSRT_ACCEL_LOAD_H

#include "psrt_accel.h"

/* NULL with why. The library stays for the life of the process: work may be under way. */
const psrt_accel_ops *psrt_accel_load(const char *path, char *why, size_t room);

/* 1 where a table is a whole one of this version, else 0 with why. */
int psrt_accel_check(const psrt_accel_ops *o, char *why, size_t room);

/* What Go calls, as it calls no pointers. A handle is a number to it: a library may give
 * small ones, which Go takes for a broken pointer where it keeps them as one. */
const char *psrt_accel_text(const psrt_accel_ops *o, int32_t result);
int32_t psrt_accel_count(const psrt_accel_ops *o, int32_t *devices);
int32_t psrt_accel_open(const psrt_accel_ops *o, int32_t device, uintptr_t *at);
int32_t psrt_accel_close(const psrt_accel_ops *o, uintptr_t at);
int32_t psrt_accel_room(const psrt_accel_ops *o, uintptr_t at, uint64_t *free_bytes, uint64_t *total);
int32_t psrt_accel_alloc(const psrt_accel_ops *o, uintptr_t at, uint64_t bytes, uint64_t *address);
int32_t psrt_accel_free(const psrt_accel_ops *o, uintptr_t at, uint64_t address);
int32_t psrt_accel_host_alloc(const psrt_accel_ops *o, uintptr_t at, uint64_t bytes, void **address);
int32_t psrt_accel_host_free(const psrt_accel_ops *o, uintptr_t at, void *address);
int32_t psrt_accel_stream(const psrt_accel_ops *o, uintptr_t at, uintptr_t *stream);
int32_t psrt_accel_stream_end(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream);
int32_t psrt_accel_event(const psrt_accel_ops *o, uintptr_t at, uintptr_t *event);
int32_t psrt_accel_event_end(const psrt_accel_ops *o, uintptr_t at, uintptr_t event);
int32_t psrt_accel_record(const psrt_accel_ops *o, uintptr_t at, uintptr_t event, uintptr_t stream);
int32_t psrt_accel_passed(const psrt_accel_ops *o, uintptr_t at, uintptr_t event, int32_t *passed);
int32_t psrt_accel_to_device(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, uint64_t to, const void *from, uint64_t bytes);
int32_t psrt_accel_to_host(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, void *to, uint64_t from, uint64_t bytes);
int32_t psrt_accel_rows_to_host(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n);
int32_t psrt_accel_fill(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, uint64_t to, int32_t byte, uint64_t bytes);
/* 1 where the table has wait, else 0. */
int32_t psrt_accel_waits(const psrt_accel_ops *o);
int32_t psrt_accel_wait(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, uintptr_t event);
/* 1 where the table has timed_event and between, else 0. */
int32_t psrt_accel_times(const psrt_accel_ops *o);
int32_t psrt_accel_timed_event(const psrt_accel_ops *o, uintptr_t at, uintptr_t *event);
int32_t psrt_accel_between(const psrt_accel_ops *o, uintptr_t at, uintptr_t first, uintptr_t last, float *ms);
int32_t psrt_accel_run(const psrt_accel_ops *o, uintptr_t at, uintptr_t stream, int32_t kernel, uint64_t n, const void *argument, uint64_t bytes);

#endif

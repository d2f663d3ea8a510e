/* Between entry.c and Go: what both know. */
#ifndef PSRT_CALLS_H
#define PSRT_CALLS_H

#include "psrt.h"

/* The library's knowledge of a thread: its last failure and the rows refused of its last push,
 * which Go writes during a call, and psrt_thread_slice's arguments. */
typedef struct psrt_text {
  char text[1024];
  uint64_t push;     /* the push that is in doubt, 0: none */
  uint64_t refused;  /* psrt_last_refused */
  uint64_t slice_us; /* 0: calls return when they are done */
  uintptr_t slot;    /* where the request of a call that goes on is put */
} psrt_text;

/* psrt_call_options with numbers for pointers: Go's runtime ends a process in which a
 * pointer of its own is 1, as the handle of a stream or a trainer's arg may be. */
typedef struct psrt_seen_options {
  uint32_t size, flags;
  uint64_t timeout_us, buffer_bytes;
  uintptr_t callback, arg;
  int32_t eventfd;
  uint32_t use_eventfd;
  uintptr_t stream;
} psrt_seen_options;

_Static_assert(sizeof(psrt_seen_options) == sizeof(psrt_call_options), "psrt_seen_options is not psrt_call_options");

/* Calls the trainer's callback. While it runs this thread may not wait. */
void psrt_run_callback(uintptr_t callback, uintptr_t arg, int status, char *message);

/* Adds 1 to an eventfd. 0, or an errno. */
int psrt_ring(int eventfd);

#endif

/* Signals of the host's. A handler that was installed without SA_ONSTACK runs on the
 * stack of whatever the thread does, and Go's stacks are small pieces of its heap: such a
 * handler writes over what lies below. So
 *
 * - a thread of the host's that enters Go has room for a handler on its goroutine's
 *   stack (makeRoom, in signals_cgo.go), from its second entry on; the first only makes that
 *   room, with all signals blocked (psrt_signals_prepare);
 * - threads of Go's block the host's signals (psrt_signals_loaded);
 * - Go keeps some signals unblocked in all its threads. Their handlers get SA_ONSTACK, at
 *   load by Go, later by a thread that looks at them (psrt_signals_watch). */
#ifndef PSRT_SIGNALS_H
#define PSRT_SIGNALS_H

/* Ends the load of the library: restores the mask of the loading thread. */
void psrt_signals_loaded(void);

/* Makes the calling thread ready for handlers. Returns 0 where it must be called again
 * before the next call, for no thread-specific key was left for Go's runtime. */
int psrt_signals_prepare(void);

/* Starts the thread that looks at handlers, unless it runs. 0, or an errno. */
int psrt_signals_watch(void);

#endif

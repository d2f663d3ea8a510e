#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "_cgo_export.h"

/* Signals of faults, and Go's own for preemption: no thread blocks them. */
static const int faults[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGURG};

/* Signals besides, of which Go's runtime unblocks all but SIGPIPE in each of its threads
 * (34 is glibc's SIGRTMIN). SIGPIPE is here as Go's handler for it may be called by the host's. */
static const int unblocked[] = {SIGSTKFLT, SIGCHLD, SIGPROF, 34, SIGPIPE};

#define LEN(a) (sizeof(a) / sizeof *(a))

static sigset_t before_load;

/* Go's runtime starts in a constructor of the library without a priority, in a thread
 * that it makes there: all its threads have that thread's mask. This runs before it, and
 * entry.c's constructor, which calls psrt_signals_loaded, after it. */
__attribute__((constructor(101))) static void block(void) {
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < LEN(faults); i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_BLOCK, &all, &before_load);
}

void psrt_signals_loaded(void) { pthread_sigmask(SIG_SETMASK, &before_load, NULL); }

static int same(const struct sigaction *a, const struct sigaction *b) {
  return a->sa_handler == b->sa_handler && (a->sa_flags | SA_ONSTACK) == (b->sa_flags | SA_ONSTACK);
}

/* Adds SA_ONSTACK to the handler of one signal. The host may install another handler
 * between the reading and the writing. Then the writing replaces that one, which is put back. */
static void add_onstack(int number) {
  struct sigaction wanted, expected, replaced;
  if (sigaction(number, NULL, &wanted) != 0) return;
  if (wanted.sa_handler == SIG_DFL || wanted.sa_handler == SIG_IGN || (wanted.sa_flags & SA_ONSTACK)) return;
  expected = wanted;
  for (int tries = 0; tries < 100; tries++) {
    wanted.sa_flags |= SA_ONSTACK;
    if (sigaction(number, &wanted, &replaced) != 0 || same(&replaced, &expected)) return;
    expected = wanted;
    wanted = replaced;
  }
}

static void look(void) {
  for (size_t i = 0; i < LEN(faults); i++) add_onstack(faults[i]);
  for (size_t i = 0; i < LEN(unblocked); i++) add_onstack(unblocked[i]);
}

/* Go's runtime/cgo: whether threads keep what the runtime made for them. */
extern uintptr_t x_cgo_pthread_key_created __attribute__((weak));

int psrt_signals_prepare(void) {
  sigset_t all, before;
  sigfillset(&all);
  look();
  pthread_sigmask(SIG_SETMASK, &all, &before);
  psrtgo_prepare();
  /* Go has unblocked some. What the host blocks stays blocked, but for faults. */
  for (size_t i = 0; i < LEN(faults); i++) sigdelset(&before, faults[i]);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return &x_cgo_pthread_key_created && x_cgo_pthread_key_created;
}

/* Handlers are looked at so often. */
enum { EVERY_MS = 10 };

static void *watch(void *unused) {
  (void)unused;
  const struct timespec pause = {.tv_nsec = EVERY_MS * 1000000L};
  for (;;) {
    look();
    nanosleep(&pause, NULL);
  }
  return NULL;
}

int psrt_signals_watch(void) {
  static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
  static int runs;
  int err = 0;
  pthread_mutex_lock(&mu);
  if (!runs) {
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, &attr, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    runs = err == 0;
  }
  pthread_mutex_unlock(&mu);
  return err;
}

/* The exported functions: each looks whether it may run here and now, and hands
 * its arguments to Go, where they are checked. Pointers travel as numbers: Go's
 * runtime ends a process in which it finds a wrong one. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"
#include "calls.h"
#include "signals.h"

/* A page that is zero in a child however it was forked; loaded is 1 in the process
 * that loaded the library. Where the kernel cannot do that, the pid tells. */
static volatile int *loaded;
static pid_t loader;
static volatile int forked_by_fork;

static void in_child(void) { forked_by_fork = 1; }

__attribute__((constructor)) static void load(void) {
  psrt_signals_loaded();
  long page = sysconf(_SC_PAGESIZE);
  loader = getpid();
  pthread_atfork(NULL, NULL, in_child);
  void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return;
#ifdef MADV_WIPEONFORK
  if (madvise(p, (size_t)page, MADV_WIPEONFORK) == 0) {
    loaded = p;
    *loaded = 1;
    return;
  }
#endif
  munmap(p, (size_t)page);
}

static int forked(void) {
  if (forked_by_fork) return 1;
  return loaded ? !*loaded : getpid() != loader;
}

/* What the library keeps for each thread. A signal handler may interrupt the thread anywhere. */
static __thread struct {
  volatile int inside; /* between the entry into Go and the return from it */
  int in_callback;
  int prepared; /* psrt_signals_prepare has run */
  psrt_text last;
} self;

/* fail copies by hand: it may run in a signal handler. */
static int fail(int status, const char *message) {
  size_t i = 0;
  for (; message[i] && i < sizeof self.last.text - 1; i++) self.last.text[i] = message[i];
  self.last.text[i] = 0;
  self.last.push = 0;
  return status;
}

static int fail_forked(void) {
  return fail(PSRT_EFORKED, "psrt: this process is a fork of the one that loaded libpsrt, whose threads it does not "
                            "have; use psrt in the parent, or load it after the fork");
}

static int fail_callback(void) {
  return fail(PSRT_EBUSY, "psrt: a callback must not wait: begin _async calls in it, or wait in another thread");
}

static int fail_inside(void) {
  return fail(PSRT_EBUSY, "psrt: this thread is inside a psrt call, which a signal handler interrupted: a signal handler "
                          "must not call psrt; set a flag in it, and call psrt when the handler has returned");
}

void psrt_run_callback(uintptr_t callback, uintptr_t arg, int status, char *message) {
  int inside = self.inside;
  self.inside = 0; /* a callback may begin calls, in whichever thread it runs */
  self.in_callback = 1;
  ((psrt_callback)callback)((void *)arg, status, message);
  self.in_callback = 0;
  self.inside = inside;
}

int psrt_ring(int eventfd) {
  const uint64_t one = 1;
  ssize_t n;
  do n = write(eventfd, &one, sizeof one);
  while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

static void prepare(void) { self.prepared = psrt_signals_prepare(); }

#define MAY_RUN                           \
  if (forked()) return fail_forked();     \
  if (self.inside) return fail_inside();  \
  if (!self.prepared) prepare()
#define MAY_WAIT \
  MAY_RUN;       \
  if (self.in_callback) return fail_callback()
/* Enters Go and returns its status. */
#define GO(call)             \
  do {                       \
    self.inside = 1;         \
    int status_ = (call);    \
    self.inside = 0;         \
    return status_;          \
  } while (0)
#define U(p) ((uintptr_t)(p))

uint32_t psrt_abi_version(void) { return PSRT_ABI_VERSION; }

const char *psrt_last_error(void) { return self.last.text; }

uint64_t psrt_last_refused(void) { return self.last.refused; }

const char *psrt_version(void) {
  static char text[128];
  static volatile int known;
  if (!known && !forked() && !self.inside) {
    if (!self.prepared) prepare();
    self.inside = 1;
    psrtgo_version(text, sizeof text);
    self.inside = 0;
    known = 1;
  }
  return text;
}

const char *psrt_strerror(int status) {
  static const char *const words[] = {"success", "an argument makes no sense", "no such handle",
      "the configuration cannot be used", "another token", "a server cannot be reached", "not done in time",
      "no such table", "the table is another one", "the ticket is forgotten", "no memory", "a server refused",
      "psrt does not work after fork", "in use", "the buffer is too small", "memory cannot be read or written",
      "files could not be read or written", "the client was closed", "the clock forbids it", "a bug of psrt",
      "a GPU or its driver is not there, or failed",
      "gradients are not finite"};
  if (status > 0 || -(long)status >= (long)(sizeof words / sizeof *words)) return "unknown status";
  return words[-status];
}

int psrt_client_open(const char *config_yaml, psrt_client **client) {
  MAY_WAIT;
  int cannot = psrt_signals_watch();
  if (cannot) return fail(PSRT_ENOMEM, "psrt: the thread that looks after signal handlers cannot be started; raise the limit on threads");
  GO(psrtgo_open(U(config_yaml), U(client), &self.last));
}

int psrt_client_close(psrt_client *client) {
  MAY_WAIT;
  GO(psrtgo_close(U(client), &self.last));
}

int psrt_noop(psrt_client *client) {
  MAY_RUN;
  GO(psrtgo_noop(U(client), &self.last));
}

int psrt_stats_json(psrt_client *client, char *buf, size_t buf_bytes, size_t *needed) {
  MAY_WAIT;
  GO(psrtgo_stats(U(client), U(buf), buf_bytes, U(needed), &self.last));
}

int psrt_table_open(psrt_client *client, const char *name, psrt_table **table) {
  MAY_WAIT;
  GO(psrtgo_table(U(client), U(name), U(table), &self.last));
}

int psrt_table_get_info(psrt_table *table, psrt_table_info *info) {
  MAY_RUN;
  GO(psrtgo_table_info(U(table), U(info), &self.last));
}

int psrt_pull_sparse(psrt_table *table, const uint64_t *keys, size_t n, float *values, uint64_t *ticket) {
  return psrt_pull_sparse_opt(table, keys, n, values, ticket, NULL);
}

int psrt_pull_sparse_opt(psrt_table *table, const uint64_t *keys, size_t n, float *values, uint64_t *ticket,
                         const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_pull(U(table), U(keys), n, U(values), U(ticket), U(options), &self.last));
}

int psrt_pull_sparse_async(psrt_table *table, const uint64_t *keys, size_t n, float *values, uint64_t *ticket,
                           const psrt_call_options *options, psrt_req **req) {
  MAY_RUN;
  GO(psrtgo_pull_async(U(table), U(keys), n, U(values), U(ticket), U(options), U(req), &self.last));
}

int psrt_push_sparse(psrt_table *table, const uint64_t *keys, size_t n, const float *grads) {
  return psrt_push_sparse_opt(table, keys, n, grads, NULL);
}

int psrt_push_sparse_opt(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                         const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_push(U(table), U(keys), n, U(grads), U(options), &self.last));
}

int psrt_push_sparse_async(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                           const psrt_call_options *options, psrt_req **req) {
  MAY_RUN;
  GO(psrtgo_push_async(U(table), U(keys), n, U(grads), U(options), U(req), &self.last));
}

int psrt_push_sparse_counts(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                            const float *shows, const float *clicks, const uint32_t *slots,
                            const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_push_counts(U(table), U(keys), n, U(grads), U(shows), U(clicks), U(slots), U(options), &self.last));
}

int psrt_table_shrink(psrt_table *table) {
  MAY_WAIT;
  GO(psrtgo_table_life(U(table), 0, &self.last));
}

int psrt_table_end_day(psrt_table *table) {
  MAY_WAIT;
  GO(psrtgo_table_life(U(table), 1, &self.last));
}

int psrt_push_sparse_ticket(psrt_table *table, uint64_t ticket, size_t n, const float *grads) {
  return psrt_push_sparse_ticket_opt(table, ticket, n, grads, NULL);
}

int psrt_push_sparse_ticket_opt(psrt_table *table, uint64_t ticket, size_t n, const float *grads,
                                const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_push_ticket(U(table), ticket, n, U(grads), U(options), &self.last));
}

int psrt_push_sparse_ticket_async(psrt_table *table, uint64_t ticket, size_t n, const float *grads,
                                  const psrt_call_options *options, psrt_req **req) {
  MAY_RUN;
  GO(psrtgo_push_ticket_async(U(table), ticket, n, U(grads), U(options), U(req), &self.last));
}

int psrt_plan(psrt_table *table, const uint64_t *keys, size_t n, uint64_t *unique, int32_t *index, size_t *n_unique) {
  MAY_RUN;
  GO(psrtgo_plan(U(table), U(keys), n, U(unique), U(index), U(n_unique), &self.last));
}

int psrt_prefetch(psrt_table *table, const uint64_t *keys, size_t n) {
  MAY_RUN;
  GO(psrtgo_prefetch(U(table), U(keys), n, &self.last));
}

int psrt_dense_size(psrt_client *client, size_t *n) {
  MAY_RUN;
  GO(psrtgo_dense_size(U(client), U(n), &self.last));
}

int psrt_dense_range(psrt_client *client, const char *name, size_t *first, size_t *n) {
  MAY_RUN;
  GO(psrtgo_dense_range(U(client), U(name), U(first), U(n), &self.last));
}

int psrt_pull_dense(psrt_client *client, float *values, size_t n) {
  return psrt_pull_dense_opt(client, values, n, NULL);
}

int psrt_pull_dense_opt(psrt_client *client, float *values, size_t n, const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_dense(U(client), U(values), n, 0, U(options), &self.last));
}

int psrt_pull_dense_async(psrt_client *client, float *values, size_t n, const psrt_call_options *options,
                          psrt_req **req) {
  MAY_RUN;
  GO(psrtgo_dense_async(U(client), U(values), n, 0, U(options), U(req), &self.last));
}

int psrt_push_dense(psrt_client *client, const float *grads, size_t n) {
  return psrt_push_dense_opt(client, grads, n, NULL);
}

int psrt_push_dense_opt(psrt_client *client, const float *grads, size_t n, const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_dense(U(client), U(grads), n, 1, U(options), &self.last));
}

int psrt_push_dense_async(psrt_client *client, const float *grads, size_t n, const psrt_call_options *options,
                          psrt_req **req) {
  MAY_RUN;
  GO(psrtgo_dense_async(U(client), U(grads), n, 1, U(options), U(req), &self.last));
}

int psrt_wait(psrt_req *req, uint64_t timeout_us) {
  MAY_WAIT;
  GO(psrtgo_wait(U(req), timeout_us, &self.last));
}

int psrt_test(psrt_req *req, int *done) {
  MAY_RUN;
  GO(psrtgo_test(U(req), U(done), &self.last));
}

int psrt_thread_slice(uint64_t slice_us, psrt_req **req) {
  MAY_RUN;
  GO(psrtgo_thread_slice(slice_us, U(req), &self.last));
}

int psrt_cancel(psrt_req *req) {
  MAY_WAIT;
  GO(psrtgo_cancel(U(req), &self.last));
}

int psrt_mem_alloc(psrt_client *client, size_t bytes, void **addr) {
  MAY_RUN;
  GO(psrtgo_mem_alloc(U(client), bytes, U(addr), &self.last));
}

int psrt_mem_free(psrt_client *client, void *addr) {
  MAY_RUN;
  GO(psrtgo_mem_end(U(client), U(addr), 1, &self.last));
}

int psrt_mem_register(psrt_client *client, void *addr, size_t bytes) {
  MAY_RUN;
  GO(psrtgo_mem_register(U(client), U(addr), bytes, &self.last));
}

int psrt_mem_unregister(psrt_client *client, void *addr) {
  MAY_RUN;
  GO(psrtgo_mem_end(U(client), U(addr), 0, &self.last));
}

int psrt_mem_is_direct(psrt_client *client, const void *addr, size_t bytes, int *direct) {
  MAY_RUN;
  GO(psrtgo_mem_is_direct(U(client), U(addr), bytes, U(direct), &self.last));
}

int psrt_clock(psrt_client *client) {
  MAY_WAIT;
  GO(psrtgo_clock(U(client), &self.last));
}

int psrt_clock_now(psrt_client *client, uint64_t *step) {
  MAY_RUN;
  GO(psrtgo_clock_now(U(client), U(step), &self.last));
}

int psrt_barrier(psrt_client *client) {
  MAY_WAIT;
  GO(psrtgo_barrier(U(client), &self.last));
}

int psrt_save(psrt_client *client, const char *dir, const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_save(U(client), U(dir), U(options), 0, &self.last));
}

int psrt_load(psrt_client *client, const char *dir, const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_save(U(client), U(dir), U(options), 1, &self.last));
}

/* Since ABI 1.3: steps_cgo.go has them. */

int psrt_finish_steps(psrt_client *client) {
  MAY_WAIT;
  GO(psrtgo_finish_steps(U(client), &self.last));
}

uint64_t psrt_last_push(void) { return self.last.push; }

int psrt_push_status(psrt_client *client, uint64_t push, psrt_push_part *parts, size_t room, size_t *n) {
  MAY_WAIT;
  GO(psrtgo_push_status(U(client), push, U(parts), room, U(n), &self.last));
}

int psrt_push_states(psrt_table *table, uint64_t push, const uint64_t *keys, size_t n, uint8_t *states) {
  MAY_WAIT;
  GO(psrtgo_push_states(U(table), push, U(keys), n, U(states), &self.last));
}

int psrt_push_missing(psrt_table *table, uint64_t push, const uint64_t *keys, size_t n, const float *grads,
                      const psrt_call_options *options) {
  MAY_WAIT;
  GO(psrtgo_push_missing(U(table), push, U(keys), n, U(grads), U(options), &self.last));
}

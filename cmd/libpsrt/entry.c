/* The exported functions: each looks whether it may run here and now, and hands
 * its arguments to Go, where they are checked. Pointers travel as numbers: Go's
 * runtime ends a process in which it finds a wrong one. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"
#include "calls.h"

/* A page that is zero in a child however it was forked; loaded is 1 in the process
 * that loaded the library. Where the kernel cannot do that, the pid tells. */
static volatile int *loaded;
static pid_t loader;
static volatile int forked_by_fork;

static void in_child(void) { forked_by_fork = 1; }

__attribute__((constructor)) static void load(void) {
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

static __thread psrt_text last;
static __thread int in_callback;

static int fail(int status, const char *message) {
  snprintf(last.text, sizeof last.text, "%s", message);
  return status;
}

static int fail_forked(void) {
  return fail(PSRT_EFORKED, "psrt: this process is a fork of the one that loaded libpsrt, whose threads it does not "
                            "have; use psrt in the parent, or load it after the fork");
}

static int fail_callback(void) {
  return fail(PSRT_EBUSY, "psrt: a callback must not wait: begin _async calls in it, or wait in another thread");
}

void psrt_run_callback(uintptr_t callback, uintptr_t arg, int status, char *message) {
  in_callback = 1;
  ((psrt_callback)callback)((void *)arg, status, message);
  in_callback = 0;
}

int psrt_ring(int eventfd) {
  const uint64_t one = 1;
  ssize_t n;
  do n = write(eventfd, &one, sizeof one);
  while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

#define MAY_RUN \
  if (forked()) return fail_forked()
#define MAY_WAIT \
  MAY_RUN;       \
  if (in_callback) return fail_callback()
#define U(p) ((uintptr_t)(p))

uint32_t psrt_abi_version(void) { return PSRT_ABI_VERSION; }

const char *psrt_last_error(void) { return last.text; }

const char *psrt_version(void) {
  static char text[128];
  static volatile int known;
  if (!known && !forked()) {
    psrtgo_version(text, sizeof text);
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
      "a GPU or its driver is not there, or failed"};
  if (status > 0 || -(long)status >= (long)(sizeof words / sizeof *words)) return "unknown status";
  return words[-status];
}

int psrt_client_open(const char *config_yaml, psrt_client **client) {
  MAY_WAIT;
  return psrtgo_open(U(config_yaml), U(client), &last);
}

int psrt_client_close(psrt_client *client) {
  MAY_WAIT;
  return psrtgo_close(U(client), &last);
}

int psrt_noop(psrt_client *client) {
  MAY_RUN;
  return psrtgo_noop(U(client), &last);
}

int psrt_stats_json(psrt_client *client, char *buf, size_t buf_bytes, size_t *needed) {
  MAY_WAIT;
  return psrtgo_stats(U(client), U(buf), buf_bytes, U(needed), &last);
}

int psrt_table_open(psrt_client *client, const char *name, psrt_table **table) {
  MAY_WAIT;
  return psrtgo_table(U(client), U(name), U(table), &last);
}

int psrt_table_get_info(psrt_table *table, psrt_table_info *info) {
  MAY_RUN;
  return psrtgo_table_info(U(table), U(info), &last);
}

int psrt_pull_sparse(psrt_table *table, const uint64_t *keys, size_t n, float *values, uint64_t *ticket) {
  return psrt_pull_sparse_opt(table, keys, n, values, ticket, NULL);
}

int psrt_pull_sparse_opt(psrt_table *table, const uint64_t *keys, size_t n, float *values, uint64_t *ticket,
                         const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_pull(U(table), U(keys), n, U(values), U(ticket), U(options), &last);
}

int psrt_pull_sparse_async(psrt_table *table, const uint64_t *keys, size_t n, float *values, uint64_t *ticket,
                           const psrt_call_options *options, psrt_req **req) {
  MAY_RUN;
  return psrtgo_pull_async(U(table), U(keys), n, U(values), U(ticket), U(options), U(req), &last);
}

int psrt_push_sparse(psrt_table *table, const uint64_t *keys, size_t n, const float *grads) {
  return psrt_push_sparse_opt(table, keys, n, grads, NULL);
}

int psrt_push_sparse_opt(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                         const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_push(U(table), U(keys), n, U(grads), U(options), &last);
}

int psrt_push_sparse_async(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                           const psrt_call_options *options, psrt_req **req) {
  MAY_RUN;
  return psrtgo_push_async(U(table), U(keys), n, U(grads), U(options), U(req), &last);
}

int psrt_push_sparse_counts(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                            const float *shows, const float *clicks, const uint32_t *slots,
                            const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_push_counts(U(table), U(keys), n, U(grads), U(shows), U(clicks), U(slots), U(options), &last);
}

int psrt_table_shrink(psrt_table *table) {
  MAY_WAIT;
  return psrtgo_table_life(U(table), 0, &last);
}

int psrt_table_end_day(psrt_table *table) {
  MAY_WAIT;
  return psrtgo_table_life(U(table), 1, &last);
}

int psrt_push_sparse_ticket(psrt_table *table, uint64_t ticket, size_t n, const float *grads) {
  return psrt_push_sparse_ticket_opt(table, ticket, n, grads, NULL);
}

int psrt_push_sparse_ticket_opt(psrt_table *table, uint64_t ticket, size_t n, const float *grads,
                                const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_push_ticket(U(table), ticket, n, U(grads), U(options), &last);
}

int psrt_push_sparse_ticket_async(psrt_table *table, uint64_t ticket, size_t n, const float *grads,
                                  const psrt_call_options *options, psrt_req **req) {
  MAY_RUN;
  return psrtgo_push_ticket_async(U(table), ticket, n, U(grads), U(options), U(req), &last);
}

int psrt_plan(psrt_table *table, const uint64_t *keys, size_t n, uint64_t *unique, int32_t *index, size_t *n_unique) {
  MAY_RUN;
  return psrtgo_plan(U(table), U(keys), n, U(unique), U(index), U(n_unique), &last);
}

int psrt_prefetch(psrt_table *table, const uint64_t *keys, size_t n) {
  MAY_RUN;
  return psrtgo_prefetch(U(table), U(keys), n, &last);
}

int psrt_dense_size(psrt_client *client, size_t *n) {
  MAY_RUN;
  return psrtgo_dense_size(U(client), U(n), &last);
}

int psrt_dense_range(psrt_client *client, const char *name, size_t *first, size_t *n) {
  MAY_RUN;
  return psrtgo_dense_range(U(client), U(name), U(first), U(n), &last);
}

int psrt_pull_dense(psrt_client *client, float *values, size_t n) {
  return psrt_pull_dense_opt(client, values, n, NULL);
}

int psrt_pull_dense_opt(psrt_client *client, float *values, size_t n, const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_dense(U(client), U(values), n, 0, U(options), &last);
}

int psrt_pull_dense_async(psrt_client *client, float *values, size_t n, const psrt_call_options *options,
                          psrt_req **req) {
  MAY_RUN;
  return psrtgo_dense_async(U(client), U(values), n, 0, U(options), U(req), &last);
}

int psrt_push_dense(psrt_client *client, const float *grads, size_t n) {
  return psrt_push_dense_opt(client, grads, n, NULL);
}

int psrt_push_dense_opt(psrt_client *client, const float *grads, size_t n, const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_dense(U(client), U(grads), n, 1, U(options), &last);
}

int psrt_push_dense_async(psrt_client *client, const float *grads, size_t n, const psrt_call_options *options,
                          psrt_req **req) {
  MAY_RUN;
  return psrtgo_dense_async(U(client), U(grads), n, 1, U(options), U(req), &last);
}

int psrt_wait(psrt_req *req, uint64_t timeout_us) {
  MAY_WAIT;
  return psrtgo_wait(U(req), timeout_us, &last);
}

int psrt_test(psrt_req *req, int *done) {
  MAY_RUN;
  return psrtgo_test(U(req), U(done), &last);
}

int psrt_thread_slice(uint64_t slice_us, psrt_req **req) {
  MAY_RUN;
  return psrtgo_thread_slice(slice_us, U(req), &last);
}

int psrt_cancel(psrt_req *req) {
  MAY_WAIT;
  return psrtgo_cancel(U(req), &last);
}

int psrt_mem_alloc(psrt_client *client, size_t bytes, void **addr) {
  MAY_RUN;
  return psrtgo_mem_alloc(U(client), bytes, U(addr), &last);
}

int psrt_mem_free(psrt_client *client, void *addr) {
  MAY_RUN;
  return psrtgo_mem_end(U(client), U(addr), 1, &last);
}

int psrt_mem_register(psrt_client *client, void *addr, size_t bytes) {
  MAY_RUN;
  return psrtgo_mem_register(U(client), U(addr), bytes, &last);
}

int psrt_mem_unregister(psrt_client *client, void *addr) {
  MAY_RUN;
  return psrtgo_mem_end(U(client), U(addr), 0, &last);
}

int psrt_mem_is_direct(psrt_client *client, const void *addr, size_t bytes, int *direct) {
  MAY_RUN;
  return psrtgo_mem_is_direct(U(client), U(addr), bytes, U(direct), &last);
}

int psrt_clock(psrt_client *client) {
  MAY_WAIT;
  return psrtgo_clock(U(client), &last);
}

int psrt_clock_now(psrt_client *client, uint64_t *step) {
  MAY_RUN;
  return psrtgo_clock_now(U(client), U(step), &last);
}

int psrt_barrier(psrt_client *client) {
  MAY_WAIT;
  return psrtgo_barrier(U(client), &last);
}

int psrt_save(psrt_client *client, const char *dir, const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_save(U(client), U(dir), U(options), 0, &last);
}

int psrt_load(psrt_client *client, const char *dir, const psrt_call_options *options) {
  MAY_WAIT;
  return psrtgo_save(U(client), U(dir), U(options), 1, &last);
}

/* Every function once, right and wrong. argv[1]: configuration; argv[2]: directory. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { N = 100, DIM = 3 };

static int called, status_seen;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static psrt_client *client;
static psrt_table *table;

static void on_done(void *arg, int status, const char *message) {
  float v[DIM];
  uint64_t k = 1;
  /* A callback may not wait, and may begin requests. */
  IS(psrt_pull_sparse(table, &k, 1, v, NULL), PSRT_EBUSY);
  IS(psrt_client_close(client), PSRT_EBUSY);
  OK(psrt_prefetch(table, &k, 1));
  CHECK(message != NULL && (status == PSRT_OK) == (message[0] == 0));
  pthread_mutex_lock(&mu);
  called += *(int *)arg;
  status_seen = status;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mu);
}

static void wait_called(int n) {
  pthread_mutex_lock(&mu);
  while (called < n) pthread_cond_wait(&cond, &mu);
  pthread_mutex_unlock(&mu);
}

static void test_sparse(void) {
  uint64_t keys[N], ticket = 0;
  float values[N * DIM], grads[N * DIM];
  for (int i = 0; i < N; i++) keys[i] = (uint64_t)(i % 70) * 0x9e3779b97f4a7c15u;
  for (int i = 0; i < N * DIM; i++) grads[i] = 1;
  OK(psrt_pull_sparse(table, keys, N, values, &ticket));
  CHECK(ticket != 0 && values[0] == 0);
  OK(psrt_push_sparse_ticket(table, ticket, N, grads));
  IS(psrt_push_sparse_ticket(table, ticket, N, grads), PSRT_ESTALE);
  OK(psrt_push_sparse(table, keys, N, grads));
  OK(psrt_pull_sparse(table, keys, N, values, NULL));
  for (int i = 0; i < N; i++) CHECK(values[i * DIM] == (i % 70 < 30 ? -4 : -2) && values[i * DIM + 2] == values[i * DIM]);
  OK(psrt_pull_sparse(table, NULL, 0, NULL, NULL));
  OK(psrt_push_sparse(table, NULL, 0, NULL));
}

static void test_planned(void) {
  uint64_t keys[N], unique[N];
  int32_t index[N];
  size_t n = 0;
  for (int i = 0; i < N; i++) keys[i] = (uint64_t)(i % 33) + 5000;
  OK(psrt_plan(table, keys, N, unique, index, &n));
  CHECK(n == 33);
  for (int i = 0; i < N; i++) CHECK(unique[index[i]] == keys[i]);
  void *mem = NULL;
  OK(psrt_mem_alloc(client, 8192, &mem));
  float *values = mem, *grads = values + 1000;
  int direct = 0;
  OK(psrt_mem_is_direct(client, mem, 8192, &direct));
  CHECK(direct == 1);
  OK(psrt_mem_is_direct(client, mem, 8193, &direct));
  CHECK(direct == 0);
  for (size_t i = 0; i < n * DIM; i++) grads[i] = (float)i;
  OK(psrt_pull_sparse(table, unique, n, values, NULL));
  OK(psrt_push_sparse(table, unique, n, grads));
  OK(psrt_pull_sparse(table, unique, n, values, NULL));
  for (size_t i = 0; i < n * DIM; i++) CHECK(values[i] == -grads[i]);
  /* From here to beyond the end of what is registered. */
  IS(psrt_pull_sparse(table, unique, n, values + 2040, NULL), PSRT_EINVAL);
  SAYS("leave the registered memory");
  static float mine[4096];
  OK(psrt_mem_register(client, mine, sizeof mine));
  IS(psrt_mem_register(client, mine + 10, 40), PSRT_EINVAL);
  SAYS("overlaps");
  OK(psrt_pull_sparse(table, unique, n, mine, NULL));
  for (size_t i = 0; i < n * DIM; i++) CHECK(mine[i] == -grads[i]);
  IS(psrt_mem_free(client, mine), PSRT_EINVAL);
  OK(psrt_mem_unregister(client, mine));
  IS(psrt_mem_unregister(client, mine), PSRT_EINVAL);
  OK(psrt_mem_free(client, mem));
}

static void test_async(void) {
  uint64_t keys[N], ticket = 0;
  static float values[N * DIM], grads[N * DIM];
  for (int i = 0; i < N; i++) keys[i] = 9000 + (uint64_t)i;
  for (int i = 0; i < N * DIM; i++) grads[i] = 2;
  psrt_req *req = NULL;
  OK(psrt_pull_sparse_async(table, keys, N, values, &ticket, NULL, &req));
  OK(psrt_wait(req, 0));
  IS(psrt_wait(req, 0), PSRT_EHANDLE);
  psrt_call_options o;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.use_eventfd = 1;
  o.eventfd = eventfd(0, EFD_CLOEXEC);
  OK(psrt_push_sparse_ticket_async(table, ticket, N, grads, &o, &req));
  struct pollfd p = {.fd = o.eventfd, .events = POLLIN};
  CHECK(poll(&p, 1, 20000) == 1);
  int done = 0;
  OK(psrt_test(req, &done));
  CHECK(done == 1);
  IS(psrt_test(req, &done), PSRT_EHANDLE);
  close(o.eventfd);
  IS(psrt_push_sparse_async(table, keys, N, grads, &o, &req), PSRT_EINVAL);
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  int by = 1;
  o.callback = on_done;
  o.arg = &by;
  OK(psrt_push_sparse_async(table, keys, N, grads, &o, NULL));
  wait_called(1);
  CHECK(status_seen == PSRT_OK);
  OK(psrt_pull_sparse_async(table, keys, N, values, NULL, &o, &req));
  OK(psrt_wait(req, 20000000));
  CHECK(values[5] == -4);
  wait_called(2);
  IS(psrt_pull_sparse_async(table, keys, N, values, NULL, NULL, NULL), PSRT_EINVAL);
}

/* What the library has copied between the caller's memory and its own. */
static unsigned long long copied_bytes(void) {
  static char js[1 << 16];
  OK(psrt_stats_json(client, js, sizeof js, NULL));
  const char *at = strstr(js, "\"copied_bytes\":");
  CHECK(at);
  return strtoull(at + strlen("\"copied_bytes\":"), NULL, 10);
}

static void test_dense_lent(void) {
  void *mem;
  OK(psrt_mem_alloc(client, 50 * sizeof(float), &mem));
  float *g = mem, v[50];
  OK(psrt_pull_dense(client, v, 50));
  unsigned long long before = copied_bytes();
  for (int i = 0; i < 50; i++) g[i] = (float)i;
  OK(psrt_push_dense(client, g, 50));
  OK(psrt_pull_dense(client, g, 50));
  CHECK(copied_bytes() == before);
  for (int i = 0; i < 50; i++) CHECK(g[i] == v[i] - (float)i);
  OK(psrt_mem_free(client, mem));
  OK(psrt_pull_dense(client, v, 50));
  CHECK(copied_bytes() == before + sizeof v);
}

static void test_dense(void) {
  size_t n = 0, first = 9;
  OK(psrt_dense_size(client, &n));
  CHECK(n == 50);
  OK(psrt_dense_range(client, "bias", &first, &n));
  CHECK(first == 1 && n == 2);
  IS(psrt_dense_range(client, "nothing", &first, &n), PSRT_ENOTABLE);
  static float v[50], g[50];
  g[1] = 3;
  OK(psrt_push_dense(client, g, 50));
  OK(psrt_pull_dense(client, v, 50));
  CHECK(v[1] == -3);
  IS(psrt_pull_dense(client, v, 49), PSRT_EMISMATCH);
  psrt_req *a, *b;
  OK(psrt_push_dense_async(client, g, 50, NULL, &a));
  OK(psrt_wait(a, 0));
  OK(psrt_pull_dense_async(client, v, 50, NULL, &b));
  OK(psrt_wait(b, 0));
  CHECK(v[1] == -6);
  test_dense_lent();
}

static void test_rest(const char *dir) {
  uint64_t step = 9, before = 9, key = 77;
  float v[DIM], one[DIM] = {1, 1, 1};
  OK(psrt_clock_now(client, &before));
  OK(psrt_clock(client));
  OK(psrt_clock_now(client, &step));
  CHECK(step == before + 1);
  OK(psrt_barrier(client));
  OK(psrt_push_sparse(table, &key, 1, one));
  OK(psrt_save(client, dir, NULL));
  OK(psrt_push_sparse(table, &key, 1, one));
  OK(psrt_load(client, dir, NULL));
  OK(psrt_pull_sparse(table, &key, 1, v, NULL));
  CHECK(v[0] == -1);
  IS(psrt_load(client, "/nowhere", NULL), PSRT_EIO);
  size_t need = 0;
  IS(psrt_stats_json(client, NULL, 0, &need), PSRT_ETOOSMALL);
  CHECK(need > 100);
  char *js = malloc(need + 4096);
  OK(psrt_stats_json(client, js, need + 4096, &need));
  CHECK(js[0] == '{' && strlen(js) + 1 == need && strstr(js, "\"transports\""));
  free(js);
  psrt_table_info info;
  memset(&info, 0xff, sizeof info);
  info.size = sizeof info;
  OK(psrt_table_get_info(table, &info));
  CHECK(info.dim == DIM && info.row_bytes == DIM * 4 && !strcmp(info.optimizer, "sgd"));
  info.size = 8; /* an older caller's */
  info.id = 12345;
  OK(psrt_table_get_info(table, &info));
  CHECK(info.dim == DIM && info.id == 12345);
}

static void test_refusals(const char *config) {
  uint64_t key = 1;
  float v[DIM];
  union { char bytes[64]; uint64_t words[8]; } u;
  psrt_client *other = NULL;
  psrt_table *t2 = NULL;
  IS(psrt_client_open(NULL, &other), PSRT_EINVAL);
  IS(psrt_client_open(config, NULL), PSRT_EINVAL);
  IS(psrt_client_open("servers: [", &other), PSRT_ECONFIG);
  IS(psrt_client_open(config, &other), PSRT_ESERVER);
  SAYS("another process is connected as worker 0");
  CHECK(other == NULL);
  IS(psrt_table_open(client, "nobody's", &t2), PSRT_ENOTABLE);
  OK(psrt_table_open(client, "rows", &t2));
  CHECK(t2 == table);
  IS(psrt_pull_sparse(table, NULL, 1, v, NULL), PSRT_EINVAL);
  SAYS("keys is NULL");
  IS(psrt_pull_sparse(table, &key, 1, NULL, NULL), PSRT_EINVAL);
  IS(psrt_pull_sparse(table, (uint64_t *)(u.bytes + 4), 1, v, NULL), PSRT_EINVAL);
  SAYS("aligned");
  IS(psrt_pull_sparse(table, &key, 1, (float *)(u.bytes + 1), NULL), PSRT_EINVAL);
  IS(psrt_pull_sparse(table, u.words, 2, (float *)(u.bytes + 8), NULL), PSRT_EINVAL);
  SAYS("overlap");
  IS(psrt_pull_sparse(table, &key, SIZE_MAX, v, NULL), PSRT_EINVAL);
  IS(psrt_pull_sparse(table, (uint64_t *)(UINTPTR_MAX - 7), 2, v, NULL), PSRT_EINVAL);
  IS(psrt_pull_sparse((psrt_table *)client, &key, 1, v, NULL), PSRT_EHANDLE);
  IS(psrt_pull_sparse(NULL, &key, 1, v, NULL), PSRT_EHANDLE);
  psrt_call_options o;
  memset(&o, 0, sizeof o);
  IS(psrt_pull_sparse_opt(table, &key, 1, v, NULL, &o), PSRT_EINVAL);
  o.size = sizeof o;
  o.flags = 1u << 30;
  IS(psrt_pull_sparse_opt(table, &key, 1, v, NULL, &o), PSRT_EINVAL);
  o.flags = PSRT_READ_ONLY;
  o.buffer_bytes = 11;
  IS(psrt_pull_sparse_opt(table, &key, 1, v, NULL, &o), PSRT_ETOOSMALL);
  o.buffer_bytes = sizeof v;
  OK(psrt_pull_sparse_opt(table, &key, 1, v, NULL, &o));
  struct { psrt_call_options o; uint64_t more; } newer;
  memset(&newer, 0, sizeof newer);
  newer.o.size = sizeof newer;
  OK(psrt_pull_sparse_opt(table, &key, 1, v, NULL, &newer.o));
  newer.more = 1;
  IS(psrt_pull_sparse_opt(table, &key, 1, v, NULL, &newer.o), PSRT_EINVAL);
  IS(psrt_wait(NULL, 0), PSRT_EHANDLE);
  IS(psrt_noop((psrt_client *)table), PSRT_EHANDLE);
}

static void *others_error(void *arg) {
  (void)arg;
  CHECK(psrt_last_error()[0] == 0);
  IS(psrt_noop(NULL), PSRT_EHANDLE);
  return NULL;
}

static void test_last_error(void) {
  IS(psrt_client_open("unknown_key: 1", &client), PSRT_ECONFIG);
  SAYS("unknown_key");
  pthread_t t;
  CHECK(pthread_create(&t, NULL, others_error, NULL) == 0 && pthread_join(t, NULL) == 0);
  SAYS("unknown_key");
  for (int s = -30; s < 30; s++) CHECK(psrt_strerror(s)[0] != 0);
  CHECK(!strcmp(psrt_strerror(PSRT_EINTERNAL), "a bug of psrt"));
  CHECK(psrt_abi_version() == PSRT_ABI_VERSION && psrt_version()[0] != 0);
}

/* Calls of a thread with a slice are done, or go on as a request. */
static int sliced(int status, psrt_req **slot) {
  psrt_req *q = *slot;
  if (q == NULL) return status;
  CHECK(status == PSRT_EBUSY);
  *slot = NULL;
  return psrt_wait(q, 0);
}

static void test_slices(const char *config) {
  psrt_req *slot = NULL, *q;
  psrt_client *other = NULL;
  psrt_table *again;
  uint64_t key = 77, ticket = 0;
  float v[DIM], g[DIM] = {1};
  char stats[1 << 16];
  int given_up = 0;
  IS(psrt_thread_slice(1, NULL), PSRT_EINVAL);
  IS(psrt_thread_slice(1ull << 40, &slot), PSRT_EINVAL);
  OK(psrt_thread_slice(1, &slot));
  for (int i = 0; i < 100; i++) {
    OK(sliced(psrt_pull_sparse(table, &key, 1, v, &ticket), &slot));
    OK(sliced(psrt_push_sparse_ticket(table, ticket, 1, g), &slot));
    OK(sliced(psrt_table_open(client, "rows", &again), &slot));
    CHECK(again == table);
    OK(sliced(psrt_stats_json(client, stats, sizeof stats, NULL), &slot));
    CHECK(stats[0] == '{');
    OK(sliced(psrt_barrier(client), &slot));
    int status = psrt_pull_sparse(table, &key, 1, v, NULL);
    if ((q = slot) == NULL) {
      OK(status);
      continue;
    }
    slot = NULL;
    OK(psrt_cancel(q));
    IS(psrt_cancel(q), PSRT_EHANDLE);
    IS(psrt_wait(q, 0), PSRT_EHANDLE);
    given_up++;
  }
  CHECK(given_up > 0);
  IS(sliced(psrt_table_open(client, "none", &again), &slot), PSRT_ENOTABLE);
  IS(sliced(psrt_client_open("servers: [127.0.0.1:0]\ntoken_file: t\n", &other), &slot), PSRT_ECONFIG);
  SAYS("port 0");
  psrt_client_open(config, &other); /* another worker's, or refused: it goes on, and is given up */
  CHECK((q = slot) != NULL && other == NULL);
  slot = NULL;
  int status = psrt_cancel(q);
  while (status == PSRT_EBUSY) status = psrt_cancel(q);
  OK(status);
  CHECK(other == NULL);
  OK(psrt_thread_slice(0, NULL));
  OK(psrt_pull_sparse(table, &key, 1, v, NULL));
  CHECK(slot == NULL);
  IS(psrt_cancel(NULL), PSRT_EHANDLE);
}

static void test_fork(void) {
  pid_t p = fork();
  CHECK(p >= 0);
  if (p == 0) {
    float v[DIM];
    uint64_t k = 1;
    int bad = psrt_noop(client) != PSRT_EFORKED || psrt_pull_sparse(table, &k, 1, v, NULL) != PSRT_EFORKED ||
              psrt_client_close(client) != PSRT_EFORKED || psrt_client_open("", &client) != PSRT_EFORKED ||
              strstr(psrt_last_error(), "fork") == NULL || psrt_abi_version() != PSRT_ABI_VERSION ||
              psrt_version()[0] == 0;
    _exit(bad);
  }
  int status = -1;
  CHECK(waitpid(p, &status, 0) == p && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(psrt_noop(client));
}

static void test_finish(void) {
  uint64_t key = 1;
  float v[DIM] = {0};
  size_t n;
  uint8_t state;
  IS(psrt_finish_steps(NULL), PSRT_EHANDLE);
  IS(psrt_push_status(client, 12345, NULL, 0, &n), PSRT_EINVAL);
  SAYS("are remembered");
  IS(psrt_push_status(client, 12345, NULL, 0, NULL), PSRT_EINVAL);
  IS(psrt_push_states(table, 12345, &key, 1, &state), PSRT_EINVAL);
  IS(psrt_push_missing(table, 12345, &key, 1, v, NULL), PSRT_EINVAL);
  CHECK(psrt_last_push() == 0);
  OK(psrt_finish_steps(client));
  OK(psrt_finish_steps(client));
  IS(psrt_push_sparse(table, &key, 1, v), PSRT_ECLOCK);
  SAYS("has finished its steps");
  IS(psrt_clock(client), PSRT_ECLOCK);
  OK(psrt_pull_sparse(table, &key, 1, v, NULL));
  OK(psrt_barrier(client));
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  char *config = slurp(argv[1]);
  test_last_error();
  OK(psrt_client_open(config, &client));
  OK(psrt_table_open(client, "rows", &table));
  test_sparse();
  test_planned();
  test_async();
  test_dense();
  test_rest(argv[2]);
  test_refusals(config);
  test_slices(config);
  test_fork();
  test_finish();
  OK(psrt_client_close(client));
  IS(psrt_client_close(client), PSRT_EHANDLE);
  uint64_t key = 1;
  float v[DIM];
  IS(psrt_pull_sparse(table, &key, 1, v, NULL), PSRT_EHANDLE);
  free(config);
  return 0;
}

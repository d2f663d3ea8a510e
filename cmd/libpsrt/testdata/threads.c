/* Several clients and many threads in one process: sums must be exact. argv:
 * configurations, one a client. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 60, N = 64, DIM = 3 };

static psrt_client *clients[4];
static psrt_table *tables[4];
static int count;

static void *work(void *arg) {
  long g = (long)arg;
  psrt_table *t = tables[g % count];
  uint64_t keys[N];
  static __thread float values[N * DIM], grads[N * DIM];
  for (int i = 0; i < N; i++) keys[i] = (uint64_t)i * 31;
  for (int i = 0; i < N * DIM; i++) grads[i] = 1;
  for (int r = 0; r < ROUNDS; r++) {
    uint64_t ticket = 0;
    OK(psrt_pull_sparse(t, keys, N, values, &ticket));
    if (r % 4 == 0) {
      psrt_req *q;
      OK(psrt_push_sparse_async(t, keys, N, grads, NULL, &q));
      OK(psrt_wait(q, 0));
    } else if (r % 4 == 1) {
      /* 16 tickets of a table are remembered, and other threads take some. */
      int s = psrt_push_sparse_ticket(t, ticket, N, grads);
      if (s == PSRT_ESTALE) s = psrt_push_sparse(t, keys, N, grads);
      OK(s);
    } else {
      OK(psrt_push_sparse(t, keys, N, grads));
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  count = argc - 1;
  for (int i = 0; i < count; i++) {
    char *config = slurp(argv[i + 1]);
    OK(psrt_client_open(config, &clients[i]));
    free(config);
    OK(psrt_table_open(clients[i], "rows", &tables[i]));
  }
  pthread_t t[THREADS];
  for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(t[i], NULL) == 0);
  uint64_t key = 31 * 5;
  float v[DIM];
  OK(psrt_pull_sparse(tables[0], &key, 1, v, NULL));
  CHECK(v[0] == -(float)(THREADS * ROUNDS));
  for (int i = 0; i < count; i++) OK(psrt_client_close(clients[i]));
  return 0;
}

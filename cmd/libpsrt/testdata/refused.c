/* Pushes with gradients that are not finite. argv[1]: configuration of an asp job,
 * argv[2]: of a bsp job. Both have a dense vector of 50 floats. */
#include <math.h>
#include <pthread.h>

#include "check.h"

enum { DIM = 3, KEYS = 100, BAD = 40, DENSE = 50 };

static uint64_t keys[KEYS];
static float grads[KEYS * DIM], dense[DENSE];
static volatile int status_of_callback = 1;

#define REFUSED(call, n) do { OK(call); CHECK(psrt_last_refused() == (n)); } while (0)
#define NOT_FINITE(call, n) do { IS(call, PSRT_ENOTFINITE); CHECK(psrt_last_refused() == (n)); SAYS("not finite"); } while (0)

static void done(void *arg, int status, const char *message) {
  (void)arg;
  (void)message;
  status_of_callback = status;
}

static void asp(psrt_client *client, psrt_table *table) {
  psrt_call_options check = {.size = sizeof check, .flags = PSRT_CHECK_FINITE};
  psrt_req *req;
  uint64_t ticket;
  float rows[KEYS * DIM];
  int is_done = 0;
  REFUSED(psrt_push_sparse(table, keys, KEYS, grads), BAD);
  REFUSED(psrt_pull_sparse(table, keys, KEYS, rows, &ticket), BAD); /* a pull changes nothing */
  REFUSED(psrt_push_sparse_ticket(table, ticket, KEYS, grads), BAD);
  REFUSED(psrt_push_sparse(table, keys + BAD, KEYS - BAD, grads + BAD * DIM), 0);
  NOT_FINITE(psrt_push_sparse_opt(table, keys, KEYS, grads, &check), BAD);
  OK(psrt_push_sparse_async(table, keys, KEYS, grads, NULL, &req));
  REFUSED(psrt_wait(req, 0), BAD);
  OK(psrt_push_sparse_async(table, keys, KEYS, grads, &check, &req));
  NOT_FINITE(psrt_wait(req, 0), BAD);
  OK(psrt_push_sparse_async(table, keys, KEYS, grads, NULL, &req));
  while (!is_done) OK(psrt_test(req, &is_done));
  CHECK(psrt_last_refused() == BAD);
  OK(psrt_pull_sparse_async(table, keys, KEYS, rows, NULL, NULL, &req));
  REFUSED(psrt_wait(req, 0), BAD);
  REFUSED(psrt_push_dense(client, dense, DENSE), 1);
  NOT_FINITE(psrt_push_dense_opt(client, dense, DENSE, &check), 1);
  IS(psrt_push_sparse(table, NULL, KEYS, grads), PSRT_EINVAL);
  CHECK(psrt_last_refused() == 0);
  check.callback = done;
  OK(psrt_push_sparse_async(table, keys, KEYS, grads, &check, &req));
  NOT_FINITE(psrt_wait(req, 0), BAD);
  while (status_of_callback == 1) {}
  CHECK(status_of_callback == PSRT_ENOTFINITE);
  /* Of 8 pushes each finite row has the sum, the others nothing. */
  OK(psrt_pull_sparse(table, keys, KEYS, rows, NULL));
  for (int i = 0; i < KEYS * DIM; i++) CHECK(rows[i] == (i < BAD * DIM ? 0 : -8));
}

static void bsp(psrt_client *client, psrt_table *table) {
  psrt_call_options check = {.size = sizeof check, .flags = PSRT_CHECK_FINITE};
  REFUSED(psrt_push_sparse(table, keys, KEYS, grads), 0); /* nothing is applied before the step ends */
  OK(psrt_push_dense(client, dense, DENSE));
  REFUSED(psrt_clock(client), BAD + 1);
  REFUSED(psrt_clock(client), 0);
  OK(psrt_push_sparse_opt(table, keys, KEYS, grads, &check));
  NOT_FINITE(psrt_clock(client), BAD);
  REFUSED(psrt_clock(client), 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  for (int i = 0; i < KEYS; i++) {
    keys[i] = (uint64_t)i * 7919;
    for (int d = 0; d < DIM; d++) grads[i * DIM + d] = 1;
    if (i < BAD) grads[i * DIM + i % DIM] = i % 2 ? NAN : -INFINITY;
  }
  dense[7] = INFINITY;
  for (int i = 1; i < argc; i++) {
    psrt_client *client;
    psrt_table *table;
    char *config = slurp(argv[i]);
    OK(psrt_client_open(config, &client));
    OK(psrt_table_open(client, "rows", &table));
    (i == 1 ? asp : bsp)(client, table);
    OK(psrt_client_close(client));
    free(config);
  }
  return 0;
}

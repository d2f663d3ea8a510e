/* A trainer of servers with replicas. argv[1]: configuration, argv[2]: how many rows, of
 * which each step has a part, argv[3]: how many clients this process has (under asp),
 * argv[4]: the first row. Each client has rows of its own: it pushes 1 to them and pulls
 * them, again and again, until a line comes on stdin; each pull must show every push so
 * far, once. */
#include <poll.h>
#include <time.h>

#include "check.h"

enum { MOST = 50000, CLIENTS = 4 };

struct trainer {
  psrt_client *c;
  psrt_table *t, *own;
  uint64_t keys[MOST];
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* step pushes to n rows that have been pushed to so often, and pulls them. */
static void step(struct trainer *k, uint64_t *mine, size_t n, long before) {
  static float ones[MOST], got[MOST];
  for (size_t i = 0; i < n; i++) ones[i] = 1;
  psrt_req *q;
  OK(psrt_push_sparse_async(k->own, mine, n, ones, NULL, &q));
  OK(psrt_push_sparse(k->t, mine, n, ones));
  OK(psrt_wait(q, 0));
  OK(psrt_clock(k->c)); /* in bsp what was pushed takes effect */
  psrt_table *both[] = {k->t, k->own};
  for (int b = 0; b < 2; b++) {
    OK(psrt_pull_sparse(both[b], mine, n, got, NULL));
    for (size_t i = 0; i < n; i++)
      if (got[i] != (float)(before + 1)) {
        fprintf(stderr, "table %d, row %zu: %g after %ld pushes\n", b, i, (double)got[i], before + 1);
        exit(1);
      }
  }
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  int rows = argc > 2 ? atoi(argv[2]) : 300, clients = argc > 3 ? atoi(argv[3]) : 1, parts = rows > 1000 ? 4 : 1;
  uint64_t first = argc > 4 ? (uint64_t)atoi(argv[4]) : 0;
  CHECK(rows > 0 && rows <= MOST && clients > 0 && clients <= CLIENTS);
  size_t n = (size_t)(rows / parts);
  char *config = slurp(argv[1]);
  static struct trainer all[CLIENTS];
  for (int c = 0; c < clients; c++) {
    OK(psrt_client_open(config, &all[c].c));
    OK(psrt_table_open(all[c].c, "sum", &all[c].t));
    OK(psrt_table_open(all[c].c, "own", &all[c].own)); /* may be described by this program */
    for (int i = 0; i < rows; i++) all[c].keys[i] = (first + (uint64_t)c * MOST + (uint64_t)i) * 7919;
  }
  puts("begun");
  fflush(stdout);
  double longest = 0;
  long steps = 0;
  for (struct pollfd in = {0, POLLIN, 0}; poll(&in, 1, 0) == 0; steps++)
    for (int c = 0; c < clients; c++) {
      double start = now();
      step(&all[c], all[c].keys + (size_t)(steps % parts) * n, n, steps / parts);
      double took = now() - start;
      if (took > longest) longest = took;
    }
  for (int c = 0; c < clients; c++) OK(psrt_client_close(all[c].c));
  free(config);
  printf("steps %ld, longest %.0f ms\n", steps, longest * 1000);
  return 0;
}

/* A trainer of servers with replicas. argv[1]: configuration. It pushes 1 to all rows
 * and pulls them, again and again, until a line comes on stdin; each pull must show
 * every push so far, once. */
#include <poll.h>
#include <time.h>

#include "check.h"

enum { KEYS = 300 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  char *config = slurp(argv[1]);
  psrt_client *c;
  psrt_table *t, *own;
  OK(psrt_client_open(config, &c));
  OK(psrt_table_open(c, "sum", &t));
  OK(psrt_table_open(c, "own", &own)); /* described by this program */
  static uint64_t keys[KEYS];
  static float ones[KEYS], got[KEYS];
  for (int i = 0; i < KEYS; i++) {
    keys[i] = (uint64_t)i * 7919;
    ones[i] = 1;
  }
  puts("begun");
  fflush(stdout);
  double longest = 0;
  long pushes = 0;
  for (struct pollfd in = {0, POLLIN, 0}; poll(&in, 1, 0) == 0;) {
    double start = now();
    psrt_req *q;
    OK(psrt_push_sparse_async(own, keys, KEYS, ones, NULL, &q));
    OK(psrt_push_sparse(t, keys, KEYS, ones));
    OK(psrt_wait(q, 0));
    OK(psrt_clock(c)); /* in bsp what was pushed takes effect */
    pushes++;
    psrt_table *both[] = {t, own};
    for (int b = 0; b < 2; b++) {
      OK(psrt_pull_sparse(both[b], keys, KEYS, got, NULL));
      for (int i = 0; i < KEYS; i++)
        if (got[i] != (float)pushes) {
          fprintf(stderr, "table %d, row %d: %g after %ld pushes\n", b, i, (double)got[i], pushes);
          return 1;
        }
    }
    double took = now() - start;
    if (took > longest) longest = took;
  }
  OK(psrt_client_close(c));
  free(config);
  printf("pushes %ld, longest %.0f ms\n", pushes, longest * 1000);
  return 0;
}

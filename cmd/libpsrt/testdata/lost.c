/* A server that goes and comes back. argv[1]: configuration. Tells on stdout what it
 * waits for; the test answers with a line on stdin. */
#include <time.h>

#include "check.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void ask(const char *what) {
  char line[100];
  puts(what);
  fflush(stdout);
  CHECK(fgets(line, sizeof line, stdin) != NULL);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  char *config = slurp(argv[1]);
  psrt_client *c;
  psrt_table *t;
  uint64_t key = 5;
  float v[3], one[3] = {1, 1, 1};
  OK(psrt_client_open(config, &c));
  OK(psrt_table_open(c, "rows", &t));
  OK(psrt_push_sparse(t, &key, 1, one));
  ask("kill");
  psrt_call_options o;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.timeout_us = 500000;
  double start = now();
  IS(psrt_pull_sparse_opt(t, &key, 1, v, NULL, &o), PSRT_ECONNECT);
  SAYS("server 0 is lost");
  psrt_req *q;
  OK(psrt_push_sparse_async(t, &key, 1, one, &o, &q));
  IS(psrt_wait(q, 0), PSRT_ECONNECT);
  CHECK(now() - start < 20);
  ask("start");
  OK(psrt_pull_sparse(t, &key, 1, v, NULL)); /* the default: as long as it takes */
  OK(psrt_push_sparse(t, &key, 1, one));
  OK(psrt_clock(c));
  OK(psrt_client_close(c));
  free(config);
  return 0;
}

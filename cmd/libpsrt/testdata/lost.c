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
  /* Nothing of it was sent: the server was known to be lost. */
  uint64_t push = psrt_last_push();
  CHECK(push != 0);
  psrt_push_part part = {0};
  size_t n = 0;
  uint8_t state = 9;
  IS(psrt_push_status(c, push, NULL, 0, &n), PSRT_ETOOSMALL);
  CHECK(n == 1 && psrt_last_push() == 0);
  IS(psrt_push_status(c, push, &part, 1, &n), PSRT_EINVAL);
  SAYS("sizeof(psrt_push_part)");
  part.size = sizeof part;
  OK(psrt_push_status(c, push, &part, 1, &n));
  CHECK(n == 1 && part.size == sizeof part && part.state == PSRT_PUSH_MISSING && part.rows == 1 && !part.ends_step);
  OK(psrt_push_states(t, push, &key, 1, &state));
  CHECK(state == PSRT_PUSH_MISSING);
  IS(psrt_push_missing(t, push, &key, 1, one, &o), PSRT_ECONNECT);
  CHECK(psrt_last_push() == push);
  ask("start");
  OK(psrt_push_missing(t, push, &key, 1, one, NULL));
  OK(psrt_push_missing(t, push, &key, 1, one, NULL)); /* nothing is missing */
  OK(psrt_pull_sparse(t, &key, 1, v, NULL));
  CHECK(v[0] == -1);
  OK(psrt_pull_sparse(t, &key, 1, v, NULL)); /* the default: as long as it takes */
  OK(psrt_push_sparse(t, &key, 1, one));
  OK(psrt_clock(c));
  OK(psrt_client_close(c));
  free(config);
  return 0;
}

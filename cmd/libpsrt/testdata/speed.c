/* What calls cost. argv[1]: configuration; argv[2]: what; argv[3], argv[4]: its
 * numbers. Prints one number. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { DIM = 3 };

static psrt_client *client;
static psrt_table *table;
static long rounds, batch;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The smallest of several: what the machine's other work does not add to. */
static double best(double (*f)(long), long n, int times) {
  double b = 1e99;
  for (int i = 0; i < times; i++) {
    double d = f(n);
    if (d < b) b = d;
  }
  return b;
}

static double noop(long n) {
  double t = now();
  for (long i = 0; i < n; i++) OK(psrt_noop(client));
  return (now() - t) / (double)n * 1e9;
}

static double pull_one(long n) {
  uint64_t key = 42;
  float v[DIM];
  double t = now();
  for (long i = 0; i < n; i++) OK(psrt_pull_sparse(table, &key, 1, v, NULL));
  return (now() - t) / (double)n * 1e9;
}

static void *pull_batches(void *arg) {
  long seed = (long)arg;
  uint64_t *keys = malloc(sizeof *keys * (size_t)batch);
  float *v = malloc(sizeof *v * (size_t)batch * DIM);
  for (long i = 0; i < batch; i++) keys[i] = (uint64_t)(i * 977 + seed) * 0x9e3779b97f4a7c15u % 1000003;
  for (long i = 0; i < rounds; i++) OK(psrt_pull_sparse(table, keys, (size_t)batch, v, NULL));
  free(keys);
  free(v);
  return NULL;
}

/* The shortest of n pulls, seconds. */
static double fastest(const uint64_t *keys, size_t k, float *v, long n) {
  double least = 1e99;
  for (long i = 0; i < n; i++) {
    double t = now();
    OK(psrt_pull_sparse(table, keys, k, v, NULL));
    t = now() - t;
    if (t < least) least = t;
  }
  return least;
}

/* Planned keys, rows in memory that the servers reach: nothing is copied. */
static double pull_planned(long n) {
  uint64_t *keys = malloc(sizeof *keys * (size_t)batch);
  size_t u;
  void *mem;
  for (long i = 0; i < batch; i++) keys[i] = (uint64_t)(i * 977) * 0x9e3779b97f4a7c15u % 1000003;
  OK(psrt_plan(table, keys, (size_t)batch, keys, NULL, &u));
  OK(psrt_mem_alloc(client, u * DIM * 4, &mem));
  double least = fastest(keys, u, mem, n);
  OK(psrt_mem_free(client, mem));
  free(keys);
  return (double)u / least;
}

static double pull_here(long n) {
  uint64_t *keys = malloc(sizeof *keys * (size_t)batch);
  float *v = malloc(sizeof *v * (size_t)batch * DIM);
  for (long i = 0; i < batch; i++) keys[i] = (uint64_t)(i * 977) * 0x9e3779b97f4a7c15u % 1000003;
  double least = fastest(keys, (size_t)batch, v, n);
  free(keys);
  free(v);
  return (double)batch / least;
}

/* Keys a second of threads that share the client. */
static double together(long threads) {
  pthread_t t[64];
  double start = now();
  for (long i = 0; i < threads; i++) CHECK(pthread_create(&t[i], NULL, pull_batches, (void *)i) == 0);
  for (long i = 0; i < threads; i++) CHECK(pthread_join(t[i], NULL) == 0);
  return (double)(threads * rounds * batch) / (now() - start);
}

static long rss_kib(void) {
  char line[256];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, f)) if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  fclose(f);
  return kib;
}

int main(int argc, char **argv) {
  CHECK(argc == 5);
  char *config = slurp(argv[1]);
  OK(psrt_client_open(config, &client));
  OK(psrt_table_open(client, "rows", &table));
  rounds = atol(argv[3]);
  batch = atol(argv[4]);
  if (!strcmp(argv[2], "noop")) printf("%.1f\n", best(noop, 2000, (int)rounds));
  else if (!strcmp(argv[2], "one")) { pull_one(1000); printf("%.1f\n", best(pull_one, 50, (int)rounds)); }
  else if (!strcmp(argv[2], "batch")) printf("%.0f\n", pull_here(rounds));
  else if (!strcmp(argv[2], "planned")) printf("%.0f\n", pull_planned(rounds));
  else if (!strcmp(argv[2], "rss")) { pull_one(1); printf("%ld\n", rss_kib()); }
  else { pull_batches(0); printf("%.0f\n", together(atol(argv[2]))); }
  OK(psrt_client_close(client));
  free(config);
  return 0;
}

/* Opening and closing leaves nothing: descriptors, threads, mappings. argv[1]:
 * configuration, argv[2]: how often. */
#define _GNU_SOURCE
#include <dirent.h>
#include <unistd.h>

#include "check.h"

static int entries(const char *dir) {
  DIR *d = opendir(dir);
  int n = 0;
  CHECK(d != NULL);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static int mappings(void) {
  FILE *f = fopen("/proc/self/maps", "r");
  int n = 0, c;
  CHECK(f != NULL);
  while ((c = getc(f)) != EOF) n += c == '\n';
  fclose(f);
  return n;
}

static void cycle(const char *config) {
  psrt_client *c;
  psrt_table *t;
  psrt_req *q;
  void *mem;
  uint64_t keys[4] = {1, 2, 3, 4}, ticket;
  static float v[12], mine[64];
  OK(psrt_client_open(config, &c));
  OK(psrt_table_open(c, "rows", &t));
  OK(psrt_mem_alloc(c, 10000, &mem));
  OK(psrt_mem_register(c, mine, sizeof mine));
  OK(psrt_pull_sparse(t, keys, 4, mem, &ticket));
  OK(psrt_push_sparse_async(t, keys, 4, v, NULL, &q)); /* never collected */
  OK(psrt_pull_sparse(t, keys, 4, mine, NULL));
  OK(psrt_client_close(c));
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  char *config = slurp(argv[1]);
  int rounds = atoi(argv[2]);
  for (int i = 0; i < 20; i++) cycle(config); /* the runtime's own threads */
  int fds = entries("/proc/self/fd"), threads = entries("/proc/self/task"), maps = mappings();
  for (int i = 0; i < rounds; i++) cycle(config);
  for (int i = 0; i < 100 && entries("/proc/self/fd") > fds; i++) usleep(50000);
  int fds2 = entries("/proc/self/fd"), threads2 = entries("/proc/self/task"), maps2 = mappings();
  printf("%d cycles: descriptors %d -> %d, threads %d -> %d, mappings %d -> %d\n", rounds, fds, fds2, threads, threads2, maps, maps2);
  /* Threads and heap of the runtime may grow a little, not with the cycles. */
  CHECK(fds2 <= fds + 2 && threads2 <= threads + 8 && maps2 <= maps + 40 + rounds / 50);
  free(config);
  return 0;
}

/* Random calls: handles that are none, sizes that are wrong, pointers into memory
 * that is not there. The process must live. argv[1]: configuration, argv[2]: seed,
 * argv[3]: calls. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static uint64_t state;
static uint64_t next(void) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static uint64_t below(uint64_t n) { return next() % n; }

enum { PAGE = 4096, PAGES = 4 };
static char *guarded, *readonly; /* PAGES pages, then one that may not be touched */
static void *handles[64];

static void *handle(void) {
  switch (below(5)) {
    case 0: return NULL;
    case 1: return (void *)(uintptr_t)next();
    case 2: return (void *)((uintptr_t)handles[below(64)] ^ (uintptr_t)1 << below(64));
    default: return handles[below(64)];
  }
}

/* Memory: mostly good, sometimes ending too early, misaligned, or nowhere. */
static void *memory(void) {
  switch (below(10)) {
    case 0: return NULL;
    case 1: return guarded + PAGES * PAGE;            /* the guard page */
    case 2: return guarded + PAGES * PAGE - below(40); /* runs into it */
    case 3: return readonly + below(64) * 8;
    case 4: return (void *)(uintptr_t)below(1 << 20);
    case 5: return guarded + below(PAGE);              /* misaligned */
    case 6: return (void *)(UINTPTR_MAX - below(4096));
    default: return guarded + below(PAGES * PAGE / 8 - 512) * 8;
  }
}

static size_t size(void) {
  switch (below(8)) {
    case 0: return 0;
    case 1: return SIZE_MAX - below(64);
    case 2: return (size_t)1 << below(64);
    case 3: return below(1 << 14);
    default: return below(16);
  }
}

static const psrt_call_options *options(void) {
  static psrt_call_options o;
  if (below(3)) return NULL;
  /* Not where junk may lie: a wrong callback cannot be told from a right one. */
  if (!below(4)) return below(2) ? (void *)(readonly + below(64) * 8) : (void *)(guarded + PAGES * PAGE - below(2) * 8);
  for (size_t i = 0; i < sizeof o; i++) ((unsigned char *)&o)[i] = below(4) ? 0 : (unsigned char)next();
  o.callback = NULL;
  o.use_eventfd = 0;
  o.timeout_us = below(2) ? below(2000) : 0;
  if (below(3)) { o.size = sizeof o; o.flags &= 15; o.buffer_bytes = 0; o.stream = NULL; }
  return &o;
}

static const char *string(void) {
  static const char *some[] = {"", "rows", "x", "servers: [127.0.0.1:1]", "{", "\xff\xfe"};
  return below(4) ? some[below(6)] : (const char *)memory();
}

static void *out(void) { return below(4) ? (void *)&handles[below(64)] : memory(); }

int main(int argc, char **argv) {
  CHECK(argc == 4);
  char *config = slurp(argv[1]);
  state = strtoull(argv[2], NULL, 10);
  long calls = atol(argv[3]), ok = 0;
  guarded = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  readonly = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(guarded != MAP_FAILED && readonly != MAP_FAILED && mprotect(guarded + PAGES * PAGE, PAGE, PROT_NONE) == 0);
  psrt_client *c;
  psrt_table *t;
  OK(psrt_client_open(config, &c));
  OK(psrt_table_open(c, "rows", &t));
  for (long i = 0; i < calls; i++) {
    if (i % 16 == 0) {
      handles[below(64)] = c;
      handles[below(64)] = t;
    }
    int s = 0;
    switch (below(27)) {
      case 0: s = psrt_noop(handle()); break;
      case 1: s = psrt_table_open(handle(), string(), out()); break;
      case 2: s = psrt_table_get_info(handle(), memory()); break;
      case 3: s = psrt_pull_sparse(handle(), memory(), size(), memory(), below(2) ? NULL : memory()); break;
      case 4: s = psrt_pull_sparse_opt(handle(), memory(), size(), memory(), NULL, options()); break;
      case 5: s = psrt_pull_sparse_async(handle(), memory(), size(), memory(), NULL, options(), out()); break;
      case 6: s = psrt_push_sparse(handle(), memory(), size(), memory()); break;
      case 7: s = psrt_push_sparse_opt(handle(), memory(), size(), memory(), options()); break;
      case 8: s = psrt_push_sparse_async(handle(), memory(), size(), memory(), options(), out()); break;
      case 9: s = psrt_push_sparse_ticket(handle(), below(2) ? below(100) : next(), size(), memory()); break;
      case 10: s = psrt_push_sparse_ticket_async(handle(), below(100), size(), memory(), options(), out()); break;
      case 11: s = psrt_plan(handle(), memory(), size(), memory(), below(2) ? NULL : memory(), memory()); break;
      case 12: s = psrt_prefetch(handle(), memory(), size()); break;
      case 13: s = psrt_dense_size(handle(), memory()); break;
      case 14: s = psrt_dense_range(handle(), string(), memory(), memory()); break;
      case 15: s = psrt_pull_dense_opt(handle(), memory(), below(2) ? 50 : size(), options()); break;
      case 16: s = psrt_push_dense_async(handle(), memory(), below(2) ? 50 : size(), options(), out()); break;
      case 17: s = psrt_wait(handle(), 1 + below(100)); break;
      case 18: s = psrt_test(handle(), memory()); break;
      case 19: s = psrt_mem_register(handle(), memory(), size()); break;
      case 20: s = below(2) ? psrt_mem_unregister(handle(), memory()) : psrt_mem_free(handle(), memory()); break;
      case 21: s = psrt_mem_is_direct(handle(), memory(), size(), memory()); break;
      case 22: s = psrt_stats_json(handle(), memory(), size(), memory()); break;
      case 24: s = psrt_push_status(handle(), below(3), memory(), size(), memory()); break;
      case 25: s = psrt_push_states(handle(), below(3), memory(), size(), memory()); break;
      case 26: s = psrt_push_missing(handle(), below(3), memory(), size(), memory(), options()); break;
      case 23:
        if (below(20)) break;
        s = below(2) ? psrt_clock(handle()) : psrt_client_open(string(), out());
        break;
    }
    CHECK(s <= 0 && s >= PSRT_EDEVICE && s != PSRT_EINTERNAL && s != PSRT_EFORKED);
    ok += s == PSRT_OK;
  }
  /* It still works. */
  uint64_t key = 1;
  float v[3];
  for (char *p = guarded; p < guarded + PAGES * PAGE; p += 4) psrt_mem_unregister(c, p);
  OK(psrt_pull_sparse(t, &key, 1, v, NULL));
  OK(psrt_client_close(c));
  printf("%ld calls, %ld succeeded\n", calls, ok);
  CHECK(ok > calls / 100);
  free(config);
  return 0;
}

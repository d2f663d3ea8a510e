/* Rows and gradients in a GPU's memory, by the driver that PSRT_CUDA_LIBRARY names: a
 * card's, or a fake one, whose memory nobody else may touch and which does all work late.
 * argv[1]: configuration, argv[2]: the driver, argv[3]: what is tried. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

enum { DIM = 3, N = 2000, DENSE = 50 };

typedef unsigned long long address;

static struct {
  int (*init)(unsigned);
  int (*device)(int *, int);
  int (*retain)(void **, int);
  int (*push)(void *);
  int (*alloc)(address *, size_t);
  int (*stream)(void **, unsigned);
  int (*event)(void **, unsigned);
  int (*record)(void *, void *);
  int (*await)(void *);
  int (*in)(address, const void *, size_t, void *);
  int (*out)(void *, address, size_t, void *);
  int (*fill)(address, unsigned char, size_t, void *);
} cu;

static void load(const char *file) {
  void *lib = dlopen(file, RTLD_NOW);
  CHECK(lib);
  static const struct {
    const char *name;
    void *slot;
  } all[] = {{"cuInit", &cu.init}, {"cuDeviceGet", &cu.device}, {"cuDevicePrimaryCtxRetain", &cu.retain}, {"cuCtxPushCurrent_v2", &cu.push},
      {"cuMemAlloc_v2", &cu.alloc}, {"cuStreamCreate", &cu.stream}, {"cuEventCreate", &cu.event},
      {"cuEventRecord", &cu.record}, {"cuEventSynchronize", &cu.await}, {"cuMemcpyHtoDAsync_v2", &cu.in},
      {"cuMemcpyDtoHAsync_v2", &cu.out}, {"cuMemsetD8Async", &cu.fill}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    void *f = dlsym(lib, all[i].name);
    CHECK(f);
    memcpy(all[i].slot, &f, sizeof f);
  }
}

static int real; /* the driver is a card's */
static psrt_client *client;
static psrt_table *table;
static void *stream, *event;
static address rows, grads, vector;
static float *as_rows, *as_grads, *as_vector;

static float seen[N * DIM], host[N * DIM];
static uint64_t keys[N];

/* What is on the device when all that was put on a stream is done. */
static const float *look(address at, size_t n, void *on) {
  memset(seen, 0, sizeof seen);
  CHECK(!cu.out(seen, at, n * sizeof(float), on) && !cu.record(event, on) && !cu.await(event));
  return seen;
}

static psrt_call_options on(void *s) {
  psrt_call_options o;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.flags = PSRT_DEVICE;
  o.stream = s;
  return o;
}

/* Gradients that are on the device only when the stream comes to it. */
static void put(float first) {
  static float next[N * DIM];
  CHECK(!cu.record(event, stream) && !cu.await(event)); /* next is free */
  for (int i = 0; i < N * DIM; i++) next[i] = first + (float)(i % 7);
  CHECK(!cu.in(grads, next, sizeof next, stream));
}

static void all_are(const float *v, float first, float times) {
  for (int i = 0; i < N * DIM; i++) CHECK(v[i] == -times * (first + (float)(i % 7)));
}

static char *stats(void) {
  static char text[1 << 16];
  OK(psrt_stats_json(client, text, sizeof text, NULL));
  return text;
}

static void begin(void) {
  void *context;
  int device;
  CHECK(!cu.init(0) && !cu.device(&device, 0) && !cu.retain(&context, device) && !cu.push(context));
  CHECK(!cu.stream(&stream, 1) && !cu.event(&event, 0));
  CHECK(!cu.alloc(&rows, N * DIM * sizeof(float)) && !cu.alloc(&grads, N * DIM * sizeof(float)) && !cu.alloc(&vector, DENSE * sizeof(float)));
  as_rows = (float *)(uintptr_t)rows;
  as_grads = (float *)(uintptr_t)grads;
  as_vector = (float *)(uintptr_t)vector;
}

static void pull_and_push(void) {
  psrt_call_options o = on(stream), plain = on(NULL);
  uint64_t ticket;
  OK(psrt_pull_sparse_opt(table, keys, N, as_rows, &ticket, &o));
  all_are(look(rows, N * DIM, stream), 0, 0);
  put(1);
  OK(psrt_push_sparse_ticket_opt(table, ticket, N, as_grads, &o));
  put(1); /* staging of the first is the library's */
  OK(psrt_push_sparse_opt(table, keys, N, as_grads, &o));
  OK(psrt_pull_sparse(table, keys, N, host, NULL));
  all_are(host, 1, 2);
  OK(psrt_pull_sparse_opt(table, keys, N, as_rows, NULL, &plain)); /* the default stream */
  all_are(look(rows, N * DIM, NULL), 1, 2);
}

static void asynchronous(void) {
  psrt_call_options o = on(stream);
  psrt_req *req, *more[20];
  put(1);
  OK(psrt_push_sparse_async(table, keys, N, as_grads, &o, &req));
  CHECK(!cu.fill(grads, 0xff, N * DIM * sizeof(float), stream)); /* it has them */
  OK(psrt_wait(req, 0));
  OK(psrt_pull_sparse_async(table, keys, N, as_rows, NULL, &o, &req));
  OK(psrt_wait(req, 0));
  all_are(look(rows, N * DIM, stream), 1, 3);
  for (int i = 0; i < 20; i++) OK(psrt_pull_sparse_async(table, keys, N - 50 * (size_t)i, as_rows, NULL, &o, &more[i]));
  for (int i = 0; i < 20; i++) OK(psrt_wait(more[i], 0));
  all_are(look(rows, N * DIM, stream), 1, 3);
  OK(psrt_pull_sparse_async(table, keys, 0, as_rows, NULL, &o, &req));
  OK(psrt_wait(req, 0));
}

static void dense(void) {
  psrt_call_options o = on(stream);
  float v[DENSE];
  OK(psrt_pull_dense(client, v, DENSE));
  OK(psrt_pull_dense_opt(client, as_vector, DENSE, &o));
  CHECK(!memcmp(look(vector, DENSE, stream), v, sizeof v));
  float g[DENSE];
  for (int i = 0; i < DENSE; i++) g[i] = (float)i;
  CHECK(!cu.in(vector, g, sizeof g, stream));
  psrt_req *req;
  OK(psrt_push_dense_async(client, as_vector, DENSE, &o, &req));
  OK(psrt_wait(req, 0));
  float w[DENSE];
  OK(psrt_pull_dense(client, w, DENSE));
  CHECK(memcmp(v, w, sizeof v));
  OK(psrt_pull_dense_opt(client, as_vector, DENSE, &o));
  CHECK(!memcmp(look(vector, DENSE, stream), w, sizeof w));
}

/* A thread that has no context of its own. */
static void *elsewhere(void *arg) {
  psrt_call_options o = on(stream);
  OK(psrt_pull_sparse_opt(table, keys, N, as_rows, NULL, &o));
  return arg;
}

/* What the library has copied between memory of the host and its own. */
static unsigned long long copied_bytes(void) {
  const char *at = strstr(stats(), "\"copied_bytes\":");
  CHECK(at);
  return strtoull(at + strlen("\"copied_bytes\":"), NULL, 10);
}

static void in_order(void) {
  static uint64_t unique[N];
  size_t u;
  OK(psrt_plan(table, keys, N, unique, NULL, &u));
  CHECK(u == N);
  unsigned long long before = copied_bytes();
  psrt_call_options o = on(stream);
  OK(psrt_pull_sparse_opt(table, unique, u, as_rows, NULL, &o));
  CHECK(copied_bytes() == before); /* the servers wrote into what the device reads */
  OK(psrt_pull_sparse(table, unique, u, host, NULL));
  CHECK(!memcmp(look(rows, N * DIM, stream), host, sizeof host));
}

static void wrong(void) {
  psrt_call_options o = on(NULL);
  IS(psrt_pull_sparse_opt(table, keys, N, host, NULL, &o), PSRT_EINVAL);
  SAYS("PSRT_DEVICE");
  if (!real) /* a card may have other memory there */
    IS(psrt_pull_sparse_opt(table, keys, N, as_rows + 1, NULL, &o), PSRT_EINVAL); /* ends behind it */
  IS(psrt_push_sparse_opt(table, keys, N, (float *)((uintptr_t)as_rows + 2), &o), PSRT_EINVAL);
  IS(psrt_push_sparse_opt(table, keys, N, NULL, &o), PSRT_EINVAL);
  o.buffer_bytes = 8;
  IS(psrt_pull_sparse_opt(table, keys, N, as_rows, NULL, &o), PSRT_ETOOSMALL);
  o = on(stream);
  o.flags = 0;
  IS(psrt_pull_sparse_opt(table, keys, N, host, NULL, &o), PSRT_EINVAL);
  SAYS("options.stream");
}

/* Over transports that no network card is behind, registered memory goes by staging. */
static void registered(void) {
  psrt_call_options o = on(stream);
  int direct = 1;
  OK(psrt_mem_register(client, as_rows, N * DIM * sizeof(float)));
  IS(psrt_mem_register(client, as_rows + N, 4), PSRT_EINVAL);
  SAYS("overlaps");
  IS(psrt_mem_register(client, as_grads, (size_t)1 << 40), PSRT_EINVAL); /* ends behind it */
  OK(psrt_mem_is_direct(client, as_rows, 4, &direct));
  CHECK(!direct);
  CHECK(strstr(stats(), "\"direct\":{\"dma_buf\":0,\"peermem\":0,\"staging\":1,\"why\":\""));
  OK(psrt_pull_sparse_opt(table, keys, N, as_rows, NULL, &o));
  all_are(look(rows, N * DIM, stream), 1, 3);
  IS(psrt_mem_free(client, as_rows), PSRT_EINVAL);
  OK(psrt_mem_unregister(client, as_rows));
  IS(psrt_mem_unregister(client, as_rows), PSRT_EINVAL);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  char *config = slurp(argv[1]);
  OK(psrt_client_open(config, &client));
  OK(psrt_table_open(client, "rows", &table));
  for (int i = 0; i < N; i++) keys[i] = (uint64_t)i * 7919 + 1;
  CHECK(!strstr(stats(), "staging"));
  if (!strcmp(argv[3], "no driver")) {
    psrt_call_options o = on(NULL);
    IS(psrt_pull_sparse_opt(table, keys, N, host, NULL, &o), PSRT_EDEVICE);
    SAYS(argv[2]);
    OK(psrt_pull_sparse(table, keys, N, host, NULL));
    OK(psrt_client_close(client));
    return 0;
  }
  real = !strcmp(argv[3], "card");
  load(argv[2]);
  begin();
  if (!strcmp(argv[3], "failing")) { /* from the second copy on */
    psrt_call_options o = on(stream);
    uint64_t ticket = 77;
    OK(psrt_pull_sparse_opt(table, keys, N, as_rows, NULL, &o));
    IS(psrt_push_sparse_opt(table, keys, N, as_grads, &o), PSRT_EDEVICE);
    SAYS("nothing was pushed");
    IS(psrt_pull_sparse_opt(table, keys, N, as_rows, &ticket, &o), PSRT_EDEVICE);
    CHECK(ticket == 77);
    OK(psrt_pull_sparse(table, keys, N, host, NULL));
    all_are(host, 0, 0);
    OK(psrt_client_close(client));
    return 0;
  }
  pull_and_push();
  asynchronous();
  dense();
  pthread_t t;
  CHECK(pthread_create(&t, NULL, elsewhere, NULL) == 0 && pthread_join(t, NULL) == 0);
  all_are(look(rows, N * DIM, stream), 1, 3);
  in_order();
  wrong();
  registered();
  CHECK(strstr(stats(), "\"device\":[{\"name\":\"GPU 0, "));
  CHECK(strstr(stats(), !strcmp(argv[3], "not pinned") ? "staging, not pinned: " : "\"way\":\"staging, pinned\""));
  OK(psrt_client_close(client));
  return 0;
}

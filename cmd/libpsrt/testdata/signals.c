/* Signals whose handlers were installed after the load of the library, without
 * SA_ONSTACK. argv[1]: configuration; argv[2]: how many signals. Prints nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { DIM = 3, KEYS = 64, THREADS = 4, HANDLER_BYTES = 64 << 10 };

static psrt_client *client;
static psrt_table *table;
static volatile int stop, refused, strays;
static __thread int is_ours;

static void pause_us(long us) {
  struct timespec t = {.tv_nsec = us * 1000};
  nanosleep(&t, NULL);
}

/* Uses more stack than a small one has, and calls psrt. */
static void tick(int s) {
  volatile char room[HANDLER_BYTES];
  (void)s;
  for (int i = HANDLER_BYTES - 1; i >= 0; i--) room[i] = (char)s;
  int status = room[s] == s && room[s + 1] == s ? psrt_noop(client) : PSRT_OK;
  if (status == PSRT_EBUSY && strstr(psrt_last_error(), "signal handler")) refused++;
}

static void stray(int s) {
  (void)s;
  if (!is_ours) strays++;
}

/* All kinds of calls, in threads that come and go. */
static void *calls(void *rounds) {
  uint64_t keys[KEYS], unique[KEYS], ticket;
  float rows[KEYS * DIM] = {0};
  is_ours = 1;
  for (int i = 0; i < KEYS; i++) keys[i] = (uint64_t)i;
  for (long n = 0; !stop && n < (long)rounds; n++) {
    psrt_req *req;
    psrt_table *again;
    size_t u;
    void *mem;
    int done = 0;
    OK(psrt_noop(client));
    OK(psrt_pull_sparse(table, keys, KEYS, rows, &ticket));
    OK(psrt_push_sparse_ticket(table, ticket, KEYS, rows));
    OK(psrt_push_sparse(table, keys, KEYS, rows));
    OK(psrt_pull_sparse_async(table, keys, KEYS, rows, NULL, NULL, &req));
    OK(psrt_wait(req, 0));
    OK(psrt_push_sparse_async(table, keys, KEYS, rows, NULL, &req));
    while (!done) OK(psrt_test(req, &done));
    OK(psrt_plan(table, keys, KEYS, unique, NULL, &u));
    OK(psrt_table_open(client, "rows", &again));
    OK(psrt_stats_json(client, NULL, 0, NULL) == PSRT_ETOOSMALL ? PSRT_OK : PSRT_EINTERNAL);
    OK(psrt_mem_alloc(client, 4096, &mem));
    OK(psrt_mem_free(client, mem));
  }
  return NULL;
}

static void install(int number, void (*handler)(int)) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = handler;
  a.sa_flags = SA_RESTART;
  CHECK(sigaction(number, &a, NULL) == 0);
}

static void *tormented(void *unused) {
  (void)unused;
  while (!stop) calls((void *)8L);
  return NULL;
}

/* Threads whose first call of psrt is interrupted, too. */
static void *first_calls(void *unused) {
  (void)unused;
  while (!stop) {
    pthread_t t;
    CHECK(pthread_create(&t, NULL, calls, (void *)1L) == 0);
    for (int i = 0; i < 5; i++) {
      pthread_kill(t, SIGUSR1);
      pause_us(50);
    }
    CHECK(pthread_join(t, NULL) == 0);
  }
  return NULL;
}

/* A signal that all threads of the program block stays pending: the library's take none. */
static void library_takes_none(void) {
  sigset_t set;
  const struct timespec second = {.tv_sec = 1};
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  install(SIGUSR2, stray);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    CHECK(kill(getpid(), SIGUSR2) == 0);
    CHECK(sigtimedwait(&set, NULL, &second) == SIGUSR2);
  }
  CHECK(strays == 0);
}

/* Go unblocks these in each thread that calls it. */
static void masks_stay(void) {
  sigset_t set, now;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGPROF);
  sigaddset(&set, SIGRTMIN);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  OK(psrt_noop(client));
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
  CHECK(sigismember(&now, SIGCHLD) && sigismember(&now, SIGPROF) && sigismember(&now, SIGRTMIN));
}

static void *in_thread(void *f) {
  void (*call)(void);
  memcpy(&call, &f, sizeof call);
  call();
  return NULL;
}

/* Handlers of signals that Go's threads take get the flag. */
static void flag_is_added(int number) {
  struct sigaction a;
  install(number, stray);
  for (int i = 0; i < 5000; i++) {
    CHECK(sigaction(number, NULL, &a) == 0 && a.sa_handler == stray);
    if (a.sa_flags & SA_ONSTACK) return;
    pause_us(1000);
  }
  CHECK(!"the handler has got SA_ONSTACK");
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  pthread_t threads[THREADS], first, other;
  long n = atol(argv[2]);
  char *config = slurp(argv[1]);
  is_ours = 1;
  OK(psrt_client_open(config, &client));
  OK(psrt_table_open(client, "rows", &table));
  void (*f)(void) = masks_stay;
  void *arg;
  memcpy(&arg, &f, sizeof arg);
  CHECK(pthread_create(&other, NULL, in_thread, arg) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  library_takes_none();
  flag_is_added(SIGCHLD);
  flag_is_added(SIGPROF);
  flag_is_added(SIGURG);
  install(SIGUSR1, tick);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, tormented, NULL) == 0);
  CHECK(pthread_create(&first, NULL, first_calls, NULL) == 0);
  for (long i = 0; i < n || (refused == 0 && i < 100 * n); i++) {
    pthread_kill(threads[i % THREADS], SIGUSR1);
    pause_us(200);
  }
  stop = 1;
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(pthread_join(first, NULL) == 0);
  CHECK(refused > 0);
  OK(psrt_client_close(client));
  free(config);
  return 0;
}

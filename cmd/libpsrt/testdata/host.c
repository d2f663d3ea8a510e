/* What the library may not change in its host: signal handlers, masks, output. It
 * is loaded by dlopen. argv[1]: the library; argv[2]: configuration. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "psrt.h"

static volatile sig_atomic_t got;
static void on_signal(int s) { got = s; }

static sigjmp_buf after_fault;
static void on_fault(int s) { (void)s; siglongjmp(after_fault, 1); }

static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGVTALRM, SIGWINCH};

#define NEED(x) do { if (!(x)) { fprintf(stderr, "%d: %s is false\n", __LINE__, #x); return 1; } } while (0)

int main(int argc, char **argv) {
  NEED(argc == 3);
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) signal(ours[i], on_signal);
  signal(SIGPIPE, on_signal);
  signal(SIGSEGV, on_fault);
  sigset_t before, after;
  sigprocmask(SIG_BLOCK, NULL, &before);
  void *lib = dlopen(argv[1], RTLD_NOW);
  if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 1; }
  int (*open_)(const char *, psrt_client **) = (int (*)(const char *, psrt_client **))dlsym(lib, "psrt_client_open");
  int (*close_)(psrt_client *) = (int (*)(psrt_client *))dlsym(lib, "psrt_client_close");
  const char *(*last)(void) = (const char *(*)(void))dlsym(lib, "psrt_last_error");
  NEED(open_ && close_ && last);
  NEED(dlsym(lib, "_cgo_topofstack") == NULL && dlsym(lib, "psrtgo_open") == NULL);
  FILE *f = fopen(argv[2], "r");
  NEED(f);
  static char config[1 << 16];
  NEED(fread(config, 1, sizeof config - 1, f) > 0);
  fclose(f);
  psrt_client *c;
  int status = open_(config, &c);
  if (status) { fprintf(stderr, "open: %d %s\n", status, last()); return 1; }
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    struct sigaction a;
    sigaction(ours[i], NULL, &a);
    if (a.sa_handler != on_signal) { fprintf(stderr, "signal %d has another handler\n", ours[i]); return 1; }
    got = 0;
    raise(ours[i]);
    NEED(got == ours[i]);
  }
  /* Those that the library takes too reach the host's handlers when they are the
   * host's. */
  int p[2];
  NEED(pipe(p) == 0 && close(p[0]) == 0);
  got = 0;
  NEED(write(p[1], "x", 1) == -1 && got == SIGPIPE);
  if (sigsetjmp(after_fault, 1) == 0) {
    *(volatile int *)(uintptr_t)8 = 1;
    NEED(0);
  }
  sigprocmask(SIG_BLOCK, NULL, &after);
  for (int s = 1; s < 64; s++) NEED(sigismember(&before, s) == sigismember(&after, s));
  NEED(close_(c) == 0);
  return 0;
}

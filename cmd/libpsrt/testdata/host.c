/* What the library may not change in its host: signal handlers, masks, output. It
 * is loaded by dlopen. argv[1]: the library; argv[2]: configuration. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "psrt.h"

static volatile sig_atomic_t got;
static void on_signal(int s) { got = s; }

static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGVTALRM, SIGWINCH};

#define NEED(x) do { if (!(x)) { fprintf(stderr, "%d: %s is false\n", __LINE__, #x); return 1; } } while (0)

int main(int argc, char **argv) {
  NEED(argc == 3);
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) signal(ours[i], on_signal);
  signal(SIGPIPE, SIG_IGN);
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
  sigprocmask(SIG_BLOCK, NULL, &after);
  NEED(memcmp(&before, &after, sizeof before) == 0);
  NEED(close_(c) == 0);
  return 0;
}

/* Checks for the C tests: the first that fails ends the program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "psrt.h"

#define CHECK(x)                                                                                  \
  do {                                                                                            \
    if (!(x)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__, #x, psrt_last_error()); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

#define IS(call, want)                                                                            \
  do {                                                                                            \
    int got_ = (call);                                                                            \
    if (got_ != (want)) {                                                                         \
      fprintf(stderr, "%s:%d: %s gave %d (%s), want %d (%s): %s\n", __FILE__, __LINE__, #call, got_, psrt_strerror(got_), \
              want, psrt_strerror(want), psrt_last_error());                                      \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

#define OK(call) IS(call, PSRT_OK)
#define SAYS(word) CHECK(strstr(psrt_last_error(), word) != NULL)

/* Reads the whole file: a configuration. */
static inline char *slurp(const char *name) {
  FILE *f = fopen(name, "r");
  if (!f) {
    perror(name);
    exit(1);
  }
  char *b = calloc(1, 1 << 16);
  CHECK(fread(b, 1, (1 << 16) - 1, f) > 0);
  fclose(f);
  return b;
}

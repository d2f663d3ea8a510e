/* Between entry.c and Go: what both know. */
#ifndef PSRT_CALLS_H
#define PSRT_CALLS_H

#include "psrt.h"

/* The message of a thread's last failure. Go writes it during a call. */
typedef struct psrt_text {
  char text[1024];
} psrt_text;

/* Calls the trainer's callback. While it runs this thread may not wait. */
void psrt_run_callback(psrt_callback callback, void *arg, int status, char *message);

/* Adds 1 to an eventfd. 0, or an errno. */
int psrt_ring(int eventfd);

#endif

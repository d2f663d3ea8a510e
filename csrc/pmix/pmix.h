#ifndef PSRT_PMIX_H
#define PSRT_PMIX_H

#include <stddef.h>
#include <stdint.h>

/* All return 0, the library's own negative status, or one of these. */
#define PSRT_PMIX_NO_LIBRARY (-100001)
#define PSRT_PMIX_TOO_LARGE  (-100002)
#define PSRT_PMIX_ODD        (-100003)

int psrt_pmix_init(char *space, uint32_t *rank, char *why, size_t n);
int psrt_pmix_put(const char *key, const void *data, size_t n);
int psrt_pmix_fence(int timeout_seconds);
int psrt_pmix_get(uint32_t rank, const char *key, int timeout_seconds, void *out, size_t room, size_t *n);
int psrt_pmix_job_size(uint32_t *size);
int psrt_pmix_finalize(void);
const char *psrt_pmix_status(int status);

#endif

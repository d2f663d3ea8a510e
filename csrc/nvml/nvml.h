#ifndef PSRT_NVML_H
#define PSRT_NVML_H

#include <stddef.h>
#include <stdint.h>

/* 0, or -1 with why. The first library that loads stays for the life of the process. */
int32_t psrt_nvml_load(const char *path, char *why, size_t n);
const char *psrt_nvml_text(int32_t result);

/* Cards are named by their PCI addresses. Results are the library's, 0 is success. */
int32_t psrt_nvml_links(const char *bus, int32_t *up, int32_t *all);
int32_t psrt_nvml_between(const char *one, const char *other, int32_t *nvlink, int32_t *peer);

#endif

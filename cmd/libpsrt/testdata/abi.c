/* The numbers that a compiled program took from psrt.h. */
#include <stddef.h>
#include <stdio.h>

#include "psrt.h"

#define SIZE(t) printf("size %s %zu\n", #t, sizeof(t))
#define FIELD(t, f) printf("offset %s.%s %zu %zu\n", #t, #f, offsetof(t, f), sizeof(((t *)0)->f))
#define NUMBER(n) printf("number %s %lld\n", #n, (long long)(n))

int main(void) {
  SIZE(psrt_table_info);
  FIELD(psrt_table_info, size);
  FIELD(psrt_table_info, dim);
  FIELD(psrt_table_info, id);
  FIELD(psrt_table_info, row_bytes);
  FIELD(psrt_table_info, optimizer);
  SIZE(psrt_call_options);
  FIELD(psrt_call_options, size);
  FIELD(psrt_call_options, flags);
  FIELD(psrt_call_options, timeout_us);
  FIELD(psrt_call_options, buffer_bytes);
  FIELD(psrt_call_options, callback);
  FIELD(psrt_call_options, arg);
  FIELD(psrt_call_options, eventfd);
  FIELD(psrt_call_options, use_eventfd);
  FIELD(psrt_call_options, stream);
  SIZE(psrt_push_part);
  FIELD(psrt_push_part, size);
  FIELD(psrt_push_part, state);
  FIELD(psrt_push_part, part);
  FIELD(psrt_push_part, server);
  FIELD(psrt_push_part, table);
  FIELD(psrt_push_part, ends_step);
  FIELD(psrt_push_part, rows);
  NUMBER(PSRT_PUSH_UNKNOWN);
  NUMBER(PSRT_PUSH_APPLIED);
  NUMBER(PSRT_PUSH_MISSING);
  NUMBER(PSRT_DENSE_TABLE);
  NUMBER(PSRT_OK);
  NUMBER(PSRT_EINVAL);
  NUMBER(PSRT_EHANDLE);
  NUMBER(PSRT_ECONFIG);
  NUMBER(PSRT_ETOKEN);
  NUMBER(PSRT_ECONNECT);
  NUMBER(PSRT_ETIMEDOUT);
  NUMBER(PSRT_ENOTABLE);
  NUMBER(PSRT_EMISMATCH);
  NUMBER(PSRT_ESTALE);
  NUMBER(PSRT_ENOMEM);
  NUMBER(PSRT_ESERVER);
  NUMBER(PSRT_EFORKED);
  NUMBER(PSRT_EBUSY);
  NUMBER(PSRT_ETOOSMALL);
  NUMBER(PSRT_EFAULT);
  NUMBER(PSRT_EIO);
  NUMBER(PSRT_ECLOSED);
  NUMBER(PSRT_ECLOCK);
  NUMBER(PSRT_EINTERNAL);
  NUMBER(PSRT_EDEVICE);
  NUMBER(PSRT_ENOTFINITE);
  NUMBER(PSRT_READ_ONLY);
  NUMBER(PSRT_ANY_CLOCK);
  NUMBER(PSRT_WEIGHTS_ONLY);
  NUMBER(PSRT_DEVICE);
  NUMBER(PSRT_CHECK_FINITE);
  return 0;
}

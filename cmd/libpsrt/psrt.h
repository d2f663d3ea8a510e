/* psrt.h - the C interface of psrt, a parameter server runtime.
 *
 * Link with `pkg-config --cflags --libs psrt`. docs/c-abi.md begins from zero.
 *
 * A program opens a client (psrt_client_open), opens tables by name
 * (psrt_table_open), pulls rows (psrt_pull_sparse), computes, and pushes
 * gradients (psrt_push_sparse). The servers (`psrt serve`) apply them.
 *
 * STATUS. Functions that can fail return an int: PSRT_OK (0), or a negative
 * PSRT_E* code. psrt_last_error() then tells more: what was wrong, with which
 * value, and what to do. A failed call changes no output unless it says so.
 *
 * HANDLES. psrt_client, psrt_table and psrt_req are opaque: their pointers are
 * numbers that the library looks up, never addresses. A handle that was closed,
 * was never given out, is of another kind or NULL is refused with PSRT_EHANDLE;
 * its number is not given out again while the process lives.
 *
 * THREADS. Every function may be called from any thread at any time, on the
 * same client or table too. psrt_client_close makes calls still running in
 * other threads return PSRT_ECLOSED and waits until they have.
 *
 * SHAPES AND UNITS. A key is any uint64_t. A row is `dim` floats (IEEE binary32,
 * host order); the rows of a call lie one after another, row i belongs to keys[i],
 * so a matrix has n * dim floats. Times are microseconds (_us), sizes are bytes
 * (_bytes) or counts of elements (n).
 *
 * OWNERSHIP. What the caller passes stays the caller's. A synchronous call is
 * done with it when it returns. An _async call has copied the keys when it
 * returns, and needs values, grads and ticket until the request is done. The
 * library keeps no other pointer, but the memory of psrt_mem_register.
 *
 * CHECKS. NULL where it is not allowed, floats not aligned to 4 bytes or uint64_t
 * not to 8, values that overlap keys, ranges that wrap around the address space
 * or leave the registered memory in which they begin: PSRT_EINVAL. Addresses that
 * are not mapped: PSRT_EFAULT, where the process lets the library see the fault
 * (docs/c-abi.md, "Signals").
 *
 * FORK. After fork() without exec() the child must not use the library: every
 * function that needs it returns PSRT_EFORKED there. The parent is not affected.
 *
 * PROCESS. The library prints nothing, never ends the process, and leaves the
 * host's handlers for SIGINT, SIGTERM and the like alone.
 *
 * SIGNALS. Handlers may interrupt any call, with SA_ONSTACK or without. A handler must
 * not call psrt: a call in a handler that interrupts a psrt call returns PSRT_EBUSY, but in a
 * handler that interrupts other code the library cannot tell (docs/c-abi.md, "Signals").
 *
 * ABI. Symbols, numbers and struct layouts of one SONAME (libpsrt.so.1) never
 * change; structs grow at their end only. Set `size` to sizeof the struct: what a
 * caller's older struct lacks has its default, as has everything that is 0.
 */
#ifndef PSRT_H
#define PSRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version that this header describes: major << 16 | minor. A library serves
 * every program whose major is its own and whose minor is not above its own. */
#define PSRT_ABI_MAJOR 1
#define PSRT_ABI_MINOR 3
#define PSRT_ABI_VERSION ((PSRT_ABI_MAJOR << 16) | PSRT_ABI_MINOR)

/* Status codes. */
#define PSRT_OK 0          /* success */
#define PSRT_EINVAL (-1)   /* an argument makes no sense; nothing was done */
#define PSRT_EHANDLE (-2)  /* the handle is closed, of another kind, or none */
#define PSRT_ECONFIG (-3)  /* the configuration text cannot be used */
#define PSRT_ETOKEN (-4)   /* client and server hold different tokens */
#define PSRT_ECONNECT (-5) /* a server cannot be reached or was lost for too long */
#define PSRT_ETIMEDOUT (-6) /* not done in time; see psrt_call_options.timeout_us */
#define PSRT_ENOTABLE (-7) /* no table of that name, and no description to make one */
#define PSRT_EMISMATCH (-8) /* the server's table has another dimension or optimizer */
#define PSRT_ESTALE (-9)   /* the ticket is forgotten; push with keys */
#define PSRT_ENOMEM (-10)  /* no memory here, or a server may not make more rows */
#define PSRT_ESERVER (-11) /* a server refused; the message says why */
#define PSRT_EFORKED (-12) /* this process is a fork of the one that loaded psrt */
#define PSRT_EBUSY (-13)   /* in use: too many requests, or memory under way */
#define PSRT_ETOOSMALL (-14) /* the buffer is too small; the size needed is told */
#define PSRT_EFAULT (-15)  /* memory of the caller cannot be read or written */
#define PSRT_EIO (-16)     /* files could not be read or written */
#define PSRT_ECLOSED (-17) /* the client was closed meanwhile */
#define PSRT_ECLOCK (-18)  /* the clock forbids it, for instance after a restart */
#define PSRT_EINTERNAL (-19) /* a bug of psrt, caught; please report the message */
#define PSRT_EDEVICE (-20) /* a GPU or its driver is not there, or has failed. Since ABI 1.2 */

#define PSRT_ENOTFINITE (-21) /* rows with gradients that are NaN or infinite were left as they
                                 were, the others changed; see PSRT_CHECK_FINITE. Since ABI 1.3 */

/* A connection to all servers of a job, as one of its workers. */
typedef struct psrt_client psrt_client;
/* One sparse table, as a client sees it. Closed with its client. */
typedef struct psrt_table psrt_table;
/* An asynchronous call that has not been collected yet. */
typedef struct psrt_req psrt_req;

/* ------------------------------------------------------------------ library */

/* psrt_abi_version gives the library's PSRT_ABI_VERSION. Compare its major
 * (>> 16) with PSRT_ABI_MAJOR. Never fails; works after fork. */
uint32_t psrt_abi_version(void);

/* psrt_version gives the library's release as text, for logs. The text is the
 * library's and lives as long as the process. */
const char *psrt_version(void);

/* psrt_strerror gives the meaning of a status in a few words, in English. Any
 * number is allowed. The text is the library's and lives as long as the process. */
const char *psrt_strerror(int status);

/* psrt_last_error gives the message of the latest call that failed in this
 * thread, "" before the first. A call that succeeds leaves it as it is. The text
 * is the library's and valid until this thread's next call that fails. Messages
 * are cut at 1023 bytes. For an _async call see psrt_wait. Works after fork. */
const char *psrt_last_error(void);

/* ------------------------------------------------------------------- client */

/* psrt_client_open connects to all servers of a job.
 *
 * config_yaml is YAML text (not a file name), at most 1 MiB:
 *
 *   servers: [10.0.0.5:7700]   # address of one server of the job, or several of
 *                              #   which the first that answers is asked for the
 *                              #   rest; host:port, [IPv6]:port
 *                              #   or unix:/path
 *   coordinator: 10.0.0.5:7701 # instead of servers: where the servers meet
 *   token_file: /etc/psrt/token # file with the job's secret, as psrt serve has it
 *   worker: 0                  # this client's number, 0 to workers-1 (0). psrt serve,
 *                              #   where clients come and go, gives another where it
 *                              #   is taken; elsewhere the second client is refused
 *   workers: 1                 # how many clients the job has; checked against the
 *                              #   servers' (default: the servers'). At psrt serve with
 *                              #   bsp or ssp: no step is over before so many were
 *                              #   there; and how many meet in psrt_barrier (default:
 *                              #   nobody waits for clients that are not there)
 *   transport: auto            # auto, verbs, shm, tcp or quic (auto)
 *   plaintext: false           # true: tcp to other hosts without TLS, if the servers say so too
 *   device: [mlx5_0]           # RDMA devices to use (those near the memory)
 *   gid_index: 3               # RoCE GID (found)
 *   port: 1                    # port of the device (those that are up)
 *   traffic_class: 104         # of RDMA packets: DSCP times 4 (0)
 *   timeout: 30s               # how long a call waits where it does not say (30s)
 *   connect_timeout: 30s       # how long opening may take (30s)
 *   requests: 64               # asynchronous calls under way, at most (64, to 1024)
 *   read: head                 # at servers with replicas: pulls go to the first server of
 *                              #   a row's chain, or to "any" of it (head; or PSRT_READ)
 *   hot_rows: 10000            # rows, of those that are pulled most often, whose values
 *                              #   the client keeps, with ssp or asp (0; or PSRT_HOT_ROWS)
 *   hot_staleness: 4           #   until they are so many steps old (4)
 *   stall_after: 10s           # a wait so long is told on standard error: who waits
 *                              #   for whom, and why (never; or PSRT_STALL_AFTER)
 *   audit: records             # record into this directory for psrt audit (nothing;
 *                              #   or PSRT_AUDIT); psrt serve needs --audit, too
 *   tables:                    # made on first open, where the servers lack them
 *     - name: user             #   and checked against theirs where not
 *       dim: 16
 *       optimizer: {kind: adagrad, lr: 0.05}    # sgd adagrad rowadagrad adam ftrl,
 *                                               #   sum, assign, or the servers' own
 *       init: {kind: uniform, scale: 0.01}      # zero, uniform or normal
 *       lifecycle: {}          # settings of docs/lifecycle.md; without, rows stay
 *
 * Unknown keys are refused. On success *client is the handle, to be given back by
 * psrt_client_close. A process may have many clients.
 *
 * PSRT_EINVAL (NULL), PSRT_ECONFIG, PSRT_ETOKEN, PSRT_ECONNECT, PSRT_ETIMEDOUT,
 * PSRT_ESERVER (that worker is connected already), PSRT_ENOMEM, PSRT_EFORKED. */
int psrt_client_open(const char *config_yaml, psrt_client **client);

/* psrt_client_close ends a client with its tables, requests and memory. Calls
 * under way return PSRT_ECLOSED, callbacks are called with it, and when the
 * function returns no thread of the library touches the caller's memory any more
 * and psrt_mem_alloc's memory is gone. Must not be called from a callback
 * (PSRT_EBUSY). PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_client_close(psrt_client *client);

/* psrt_noop looks the client up and returns: what every call costs at least, for
 * measurements. PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_noop(psrt_client *client);

/* psrt_stats_json writes counts and facts about client and servers as a JSON
 * object with a terminating 0 into buf; it asks the servers. *needed (may be NULL)
 * becomes the bytes needed, the 0 included, also where buf is too small
 * (PSRT_ETOOSMALL; buf may then be NULL with buf_bytes 0). Keys are only added
 * between releases. PSRT_EHANDLE, PSRT_ECONNECT, PSRT_ETIMEDOUT, PSRT_EFORKED. */
int psrt_stats_json(psrt_client *client, char *buf, size_t buf_bytes, size_t *needed);

/* ------------------------------------------------------------------- tables */

/* What a table is. Set size before passing it. */
typedef struct psrt_table_info {
  uint32_t size;      /* sizeof(psrt_table_info), set by the caller */
  uint32_t dim;       /* floats of a row */
  uint32_t id;        /* the servers' number for it */
  uint32_t row_bytes; /* of a row at a server, optimizer state included */
  char optimizer[32]; /* kind, with a terminating 0 */
} psrt_table_info;

/* psrt_table_open opens a sparse table by name. Where the servers have none of
 * that name it is made as the client's configuration describes it; where both
 * know it, dimension, optimizer and initialisation must agree (PSRT_EMISMATCH, the
 * message shows both). A table of the servers needs no description here. Opening
 * a name again gives the same table. *table ends with its client.
 *
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_ENOTABLE, PSRT_EMISMATCH, PSRT_ECONNECT,
 * PSRT_ETIMEDOUT, PSRT_ENOMEM, PSRT_EFORKED. */
int psrt_table_open(psrt_client *client, const char *name, psrt_table **table);

/* psrt_table_get_info fills *info as far as info->size says.
 * PSRT_EINVAL (NULL, or a size below 8), PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_table_get_info(psrt_table *table, psrt_table_info *info);

/* ------------------------------------------------------------ call options */

#define PSRT_READ_ONLY 1u /* pull: make no rows; unknown keys give zeros */
#define PSRT_ANY_CLOCK 2u /* pull: what is there now, whatever the clocks say */
#define PSRT_WEIGHTS_ONLY 4u /* save: leave the optimizer's state out */
#define PSRT_DEVICE 8u /* values or grads are in a GPU's memory. Since ABI 1.2 */

#define PSRT_CHECK_FINITE 16u /* push: rows that were refused are PSRT_ENOTFINITE. Since ABI 1.3 */

/* psrt_callback is called once, when a request is done, with its status and
 * message ("" on success, valid during the call). It runs on a thread of the
 * library: it must be quick, must not wait (psrt_wait and synchronous calls return
 * PSRT_EBUSY there), and may begin _async calls. */
typedef void (*psrt_callback)(void *arg, int status, const char *message);

/* How a call shall run. All zero but size is the default; so is a NULL pointer. */
typedef struct psrt_call_options {
  uint32_t size;       /* sizeof(psrt_call_options), set by the caller */
  uint32_t flags;      /* PSRT_READ_ONLY, PSRT_ANY_CLOCK, PSRT_WEIGHTS_ONLY, PSRT_DEVICE,
                          PSRT_CHECK_FINITE */
  uint64_t timeout_us; /* from now; 0 means the client's timeout; at most a day */
  uint64_t buffer_bytes; /* the room behind values or grads; 0: as much as needed.
                            Less than n * dim * 4 is refused (PSRT_ETOOSMALL) */
  psrt_callback callback; /* _async only: called when done; NULL for none */
  void *arg;           /* for callback */
  int32_t eventfd;     /* _async only, where use_eventfd is not 0: an eventfd(2) of
                          the caller to which 1 is added when done */
  uint32_t use_eventfd;
  void *stream;        /* with PSRT_DEVICE: a CUDA stream (CUstream, cudaStream_t) of the
                          memory's device, NULL the default stream. Since ABI 1.2 */
} psrt_call_options;

/* PSRT_DEVICE in flags has values or grads of any pull or push, sparse or dense, be in
 * the memory of a GPU (CUDA's cudaMalloc, PyTorch's tensors), which is found by its
 * address; keys and ticket stay the host's. A pull returns (or its request is done)
 * when the copy of the rows is on options.stream: work put there from then on sees
 * them. A push reads grads behind what is on the stream and waits for that before it
 * sends (an _async one before it returns: grads may be changed at once then). The stream
 * is of the device's primary context, which CUDA's runtime and PyTorch use, and is not
 * checked: a wrong handle ends the process, in the driver. With an _async pull it must not
 * be cudaStreamPerThread (PSRT_EINVAL): a thread of the library gives it the copy.
 *
 * PSRT_EDEVICE: no driver, no GPU, or one that failed; PSRT_EINVAL: not all of it is a
 * GPU's memory, or that stream; PSRT_ENOMEM: no memory for staging; PSRT_ETIMEDOUT: the stream's work
 * before grads is not over in time, or before the copies of 32 calls whose staging is
 * in use. A push that gives one of these has sent nothing, a pull that is not _async has
 * set no ticket. "device" in psrt_stats_json tells which way rows come and go: through
 * staging, or, where the memory is registered (psrt_mem_register), without it. */

/* -------------------------------------------------------------- sparse rows */

/* psrt_pull_sparse reads the rows of n keys: values[i*dim .. i*dim+dim-1] is the
 * row of keys[i]. Keys may repeat and stand in any order; rows that do not exist
 * are made. n may be 0, and is at most 2^26.
 *
 * *ticket (may be NULL) becomes a number by which psrt_push_sparse_ticket names
 * the same keys in the same order without sending them again. A client remembers
 * its last 16 tickets of a table.
 *
 * Where the keys are as psrt_plan gives them and values lie in registered memory
 * that the servers reach (psrt_mem_is_direct), the servers write straight there;
 * else the rows are copied once. After a failure values are undefined.
 *
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFAULT, PSRT_ETIMEDOUT, PSRT_ECONNECT,
 * PSRT_ENOMEM (a server may not make more rows), PSRT_ESERVER, PSRT_ECLOSED,
 * PSRT_EFORKED. */
int psrt_pull_sparse(psrt_table *table, const uint64_t *keys, size_t n, float *values,
                     uint64_t *ticket);

/* psrt_pull_sparse_opt is psrt_pull_sparse with options (may be NULL). Also
 * PSRT_ETOOSMALL. */
int psrt_pull_sparse_opt(psrt_table *table, const uint64_t *keys, size_t n, float *values,
                         uint64_t *ticket, const psrt_call_options *options);

/* psrt_pull_sparse_async begins psrt_pull_sparse and returns; *req is to be
 * collected by psrt_wait or psrt_test. With a callback req may be NULL: the library
 * then collects it. values and ticket must stay until the request is done. Also
 * PSRT_EBUSY: as many requests as the configuration allows are under way. */
int psrt_pull_sparse_async(psrt_table *table, const uint64_t *keys, size_t n, float *values,
                           uint64_t *ticket, const psrt_call_options *options, psrt_req **req);

/* psrt_push_sparse sends one gradient for each of n keys: grads[i*dim ..]
 * belongs to keys[i]. Gradients of a key that repeats are added before the
 * optimizer sees them. Rows that do not exist are made first. A row whose gradient
 * is NaN or infinite is left as it is: psrt_last_refused gives the number of such rows, and
 * with PSRT_CHECK_FINITE the call returns PSRT_ENOTFINITE after the other rows are
 * applied. Each call is applied once, also where a
 * connection broke and was made again.
 *
 * It returns when the servers have applied it. Where the servers run bsp they do
 * so when all workers have ended the step: there it returns when the gradients are
 * taken over, and psrt_clock tells what became of them. A step may push to any number
 * of tables.
 *
 * Errors as psrt_pull_sparse; after PSRT_ETIMEDOUT or PSRT_ECONNECT a push may be there
 * in part: psrt_last_push names it, psrt_push_status tells, psrt_push_missing repeats
 * exactly the rest. */
int psrt_push_sparse(psrt_table *table, const uint64_t *keys, size_t n, const float *grads);
int psrt_push_sparse_opt(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                         const psrt_call_options *options);
int psrt_push_sparse_async(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                           const psrt_call_options *options, psrt_req **req);

/* psrt_last_refused gives the number of rows that the servers left as they were, since
 * their gradient was not finite, of this thread's latest push. Keys that repeat are one row.
 * Of the dense vector it counts blocks. The number is valid after a push returned, after
 * psrt_wait or psrt_test collected an _async push, and after psrt_clock: under bsp a
 * push returns before it is applied, and psrt_clock gives the number for the step. A push
 * that failed has 0, but for PSRT_ENOTFINITE. Never fails. Since ABI 1.3. */
uint64_t psrt_last_refused(void);

/* psrt_push_sparse_counts is psrt_push_sparse to a table with a lifecycle
 * (docs/lifecycle.md), and says of each key how often it was shown and clicked since
 * it was pushed last, and its slot (field, below 2^24). shows may be NULL: one each;
 * clicks: none; slots: 0. psrt_push_sparse to such a table is this with all three
 * NULL. Of keys that repeat, shows, clicks and gradients are added and the last slot
 * counts. options may be NULL. Other tables: PSRT_EMISMATCH. Since ABI 1.1. */
int psrt_push_sparse_counts(psrt_table *table, const uint64_t *keys, size_t n, const float *grads,
                            const float *shows, const float *clicks, const uint32_t *slots,
                            const psrt_call_options *options);

/* psrt_table_shrink has the shows and clicks of all rows decay, and those rows go
 * that are not worth their place. It takes effect at every server between two steps:
 * with bsp before this worker's current step, with others at once, and costs no walk
 * over the rows. A call that returns an error may have taken effect, and at all
 * servers when the next succeeds. One worker of the job calls it and
 * psrt_table_end_day. PSRT_EMISMATCH (no lifecycle), PSRT_EBUSY (another worker
 * does), PSRT_EHANDLE, PSRT_ECONNECT, PSRT_ETIMEDOUT, PSRT_EFORKED. Since ABI 1.1. */
int psrt_table_shrink(psrt_table *table);

/* psrt_table_end_day has a day pass, by which rows that nobody pushes to grow old. A
 * day's order: end_day, then shrink. It takes effect as
 * psrt_table_shrink does. Errors as there. Since ABI 1.1. */
int psrt_table_end_day(psrt_table *table);

/* psrt_push_sparse_ticket is psrt_push_sparse for the keys of a pull: n must be
 * that pull's and grads in its order. A ticket can be used once. No key is sent, and
 * no server looks a row up twice. Also PSRT_ESTALE: the client has pulled too
 * often since (or the ticket was used); push with keys. */
int psrt_push_sparse_ticket(psrt_table *table, uint64_t ticket, size_t n, const float *grads);
int psrt_push_sparse_ticket_opt(psrt_table *table, uint64_t ticket, size_t n, const float *grads,
                                const psrt_call_options *options);
int psrt_push_sparse_ticket_async(psrt_table *table, uint64_t ticket, size_t n,
                                  const float *grads, const psrt_call_options *options,
                                  psrt_req **req);

/* psrt_plan finds the unique ones among n keys and puts them in the order in which
 * the servers hold them: unique[0 .. *n_unique-1]; unique has room for n. index
 * (may be NULL) has room for n, and keys[i] is unique[index[i]] afterwards. unique
 * may be keys itself. Nothing is sent. A pull of keys in this order into registered
 * memory, and a push from there, copy nothing.
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFAULT, PSRT_EFORKED. */
int psrt_plan(psrt_table *table, const uint64_t *keys, size_t n, uint64_t *unique, int32_t *index,
              size_t *n_unique);

/* psrt_prefetch tells the servers that rows will be wanted soon: missing ones are
 * made and the rest brought near, from disks too, while the caller does something
 * else. Where the caller ends steps (psrt_clock) they are also announced for the
 * next one, until whose end servers keep them near as far as memory allows. It
 * returns when the request is sent; what becomes of it changes no result. keys may
 * be reused. Errors as psrt_pull_sparse_async. */
int psrt_prefetch(psrt_table *table, const uint64_t *keys, size_t n);

/* --------------------------------------------------------------- dense vector */

/* psrt_dense_size gives the floats of the job's dense vector, 0 where it has none.
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_dense_size(psrt_client *client, size_t *n);

/* psrt_dense_range gives where the named part of the dense vector lies: *n floats
 * from *first. PSRT_ENOTABLE: the servers name no such part. PSRT_EINVAL,
 * PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_dense_range(psrt_client *client, const char *name, size_t *first, size_t *n);

/* psrt_pull_dense reads the whole dense vector; n must be psrt_dense_size's
 * (PSRT_EMISMATCH). Each block of it is of one version. Registered memory that the
 * servers reach is written by them. Errors as psrt_pull_sparse. */
int psrt_pull_dense(psrt_client *client, float *values, size_t n);
int psrt_pull_dense_opt(psrt_client *client, float *values, size_t n,
                        const psrt_call_options *options);
int psrt_pull_dense_async(psrt_client *client, float *values, size_t n,
                          const psrt_call_options *options, psrt_req **req);

/* psrt_push_dense sends a gradient for the whole dense vector, as psrt_push_sparse
 * does for rows. From registered memory that the servers reach they read it
 * themselves, except under bsp, where the gradients are taken over. Errors as
 * psrt_pull_dense. */
int psrt_push_dense(psrt_client *client, const float *grads, size_t n);
int psrt_push_dense_opt(psrt_client *client, const float *grads, size_t n,
                        const psrt_call_options *options);
int psrt_push_dense_async(psrt_client *client, const float *grads, size_t n,
                          const psrt_call_options *options, psrt_req **req);

/* ------------------------------------------------------------------ requests */

/* psrt_wait waits until a request is done, for at most timeout_us (0: the time
 * that the request itself has left), and returns the request's status, its message
 * in psrt_last_error. It collects the request: *req's handle is of no use
 * afterwards. Where timeout_us passes first it returns PSRT_EBUSY and the request
 * goes on. One thread at a time may wait for a request. PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_wait(psrt_req *req, uint64_t timeout_us);

/* psrt_test looks whether a request is done, without waiting: *done becomes 1 and
 * the request is collected, its status being returned; or *done becomes 0 and
 * PSRT_OK is returned. PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_test(psrt_req *req, int *done);

/* psrt_cancel gives a request up, as the end of its timeout would, and collects it: when
 * it returns PSRT_OK the library has done with what the call was given, and *req's
 * handle is of no use. A pull's values are undefined then. A push is not taken back: it
 * may have been applied, as after PSRT_ETIMEDOUT. An open leaves no client. A barrier
 * counts this worker as there until its timeout; the next psrt_barrier is the same one. What
 * cannot be given up (psrt_client_close, psrt_clock, psrt_table_open, psrt_save,
 * psrt_load, psrt_table_shrink, psrt_table_end_day, psrt_stats_json, psrt_finish_steps,
 * psrt_push_status, _states and _missing, and calls with PSRT_DEVICE) goes on to its end: PSRT_EBUSY, the request is to be collected later, and
 * what the call was given must stay until then. PSRT_EHANDLE, PSRT_EFORKED. Since ABI 1.3. */
int psrt_cancel(psrt_req *req);

/* psrt_thread_slice is for programs that must look up while a call waits, such as
 * interpreters that run signal handlers between calls. From then on a call of this
 * thread that is not done within slice_us (at most a minute) returns PSRT_EBUSY and puts a
 * request into *req, which goes on: the caller sets *req to NULL and collects it by
 * psrt_wait, psrt_test or psrt_cancel, as one of an _async call, whose result is the call's.
 * What the call was given and where its results go must stay until then. While *req
 * is not NULL calls return when they are done, as they do where slice_us is 0
 * (the default), of other threads, and with cudaStreamPerThread. A call that is done
 * in time costs nothing more; PSRT_EBUSY without a request in *req is the call's own.
 * PSRT_EINVAL, PSRT_EFORKED. Since ABI 1.3. */
int psrt_thread_slice(uint64_t slice_us, psrt_req **req);

/* ----------------------------------------------------------- registered memory */

/* psrt_mem_alloc gives zeroed memory, aligned to a page, that servers reach over
 * every transport, shared memory included; it is registered. psrt_mem_free or
 * psrt_client_close end it. PSRT_EINVAL, PSRT_EHANDLE, PSRT_ENOMEM, PSRT_EFORKED. */
int psrt_mem_alloc(psrt_client *client, size_t bytes, void **addr);

/* psrt_mem_free gives back what psrt_mem_alloc gave. PSRT_EBUSY while a request uses
 * it. PSRT_EINVAL (another address), PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_mem_free(psrt_client *client, void *addr);

/* psrt_mem_register lends the servers bytes from addr, memory of the caller that is
 * mapped and writable until psrt_mem_unregister. Any alignment to 4 bytes is
 * allowed; ranges must not overlap another's. Registering is slow (pages are
 * pinned for RDMA): do it once, for what is used again and again. Pulls into it
 * and pushes from it need no copy (see psrt_pull_sparse), except over shared
 * memory, which reaches only what psrt_mem_alloc gave.
 *
 * It may be memory of a GPU, for calls with PSRT_DEVICE; unregister it before it is
 * freed. Where all servers are reached by RDMA, and the driver and the network card can,
 * that card then reads and writes it, by dma-buf or nvidia_peermem. Such a call waits
 * until options.stream has done what is on it (an _async pull before it returns), and
 * work that is given to the GPU after the call sees the rows. Else, and for what a
 * network card alone cannot do (keys that are not as psrt_plan gives them, an _async
 * push, a push under bsp or to a table with a lifecycle), rows go through staging as
 * without it: psrt_mem_is_direct tells, and "device" in psrt_stats_json why.
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFAULT (not mapped), PSRT_ENOMEM (the limit on locked
 * memory), PSRT_EDEVICE, PSRT_EFORKED. */
int psrt_mem_register(psrt_client *client, void *addr, size_t bytes);

/* psrt_mem_unregister takes it back: when it returns PSRT_OK no server can reach
 * the memory. PSRT_EBUSY while a request uses it. PSRT_EINVAL (not registered at
 * that address), PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_mem_unregister(psrt_client *client, void *addr);

/* psrt_mem_is_direct tells whether the servers, all of them, reach the bytes from
 * addr themselves: *direct becomes 1 or 0. PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_mem_is_direct(psrt_client *client, const void *addr, size_t bytes, int *direct);

/* ----------------------------------------------------- clocks, all workers */

/* psrt_clock ends this worker's step: all it pushed belongs to the step, and later
 * pulls are of the next one. With ssp a pull waits while another worker is too far
 * behind; with bsp psrt_clock itself waits until every worker has ended the step
 * and gives the first error of the step's pushes, PSRT_ENOTFINITE too where one of them
 * had PSRT_CHECK_FINITE; with asp nothing waits.
 * PSRT_ETIMEDOUT names the workers that have not ended the step, or did not come yet.
 * psrt_clock_now tells the step. Calls of other threads that overlap it belong to
 * either step. PSRT_ECLOCK: a worker that has not ended the step waits in a barrier for
 * this one (or, as for pulls and pushes, see psrt_finish_steps). PSRT_EHANDLE,
 * PSRT_ETIMEDOUT, PSRT_ECONNECT, PSRT_ESERVER, PSRT_ECLOSED, PSRT_EFORKED. */
int psrt_clock(psrt_client *client);

/* psrt_finish_steps says that this worker takes no more steps and pushes nothing more,
 * so that with bsp and ssp the others wait for it no longer: for a worker that has fewer
 * batches. Call it after the last psrt_clock. What it has pushed counts. The worker stays
 * in the job: barriers wait for it, psrt_save and the like go on, and its pulls give what
 * is there. Its pushes, psrt_clock and dense pushes return PSRT_ECLOCK from then on. A
 * second call does nothing; after a lost connection it stays finished. A client that is
 * closed has finished, too. A new client takes steps again.
 * PSRT_EBUSY: with bsp something was pushed since the last psrt_clock. PSRT_EHANDLE,
 * PSRT_ETIMEDOUT, PSRT_ECONNECT, PSRT_ESERVER (servers of an older release),
 * PSRT_ECLOSED, PSRT_EFORKED. Since ABI 1.3. */
int psrt_finish_steps(psrt_client *client);

/* psrt_clock_now gives the number of the current step: 0 in a new job.
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_EFORKED. */
int psrt_clock_now(psrt_client *client, uint64_t *step);

/* psrt_barrier waits until every worker of the job has called it as often, for at
 * most the client's timeout. PSRT_ETIMEDOUT names how many have come. A worker that
 * waits here ends no step: with bsp and ssp one that others wait for calls
 * psrt_finish_steps before. Where it has not, both get PSRT_ECLOCK after about a second.
 * PSRT_EHANDLE, PSRT_ECONNECT, PSRT_ECLOSED, PSRT_EFORKED. */
int psrt_barrier(psrt_client *client);

/* ------------------------------------------------------------- pushes in doubt */

/* What is known of a part of a push. */
#define PSRT_PUSH_UNKNOWN 0u /* no server has said yet; the client sends it until one does */
#define PSRT_PUSH_APPLIED 1u /* the server has it: it counts, once. With bsp for its step */
#define PSRT_PUSH_MISSING 2u /* no server has it, and it is not sent again */

#define PSRT_DENSE_TABLE 0xffffffffu /* psrt_push_part.table of the dense vector */

/* One server lane's part of a push; at servers with replicas one group's. */
typedef struct psrt_push_part {
  uint32_t size;      /* sizeof(psrt_push_part), set by the caller in parts[0] */
  uint32_t state;     /* PSRT_PUSH_* */
  uint32_t part;      /* number of the lane or group in the job */
  uint32_t server;    /* number of the server; with replicas of the group */
  uint32_t table;     /* psrt_table_info.id, or PSRT_DENSE_TABLE */
  uint32_t ends_step; /* 1: it ends the worker's step there, as psrt_clock does */
  uint64_t rows;      /* of the table; of the dense vector 1 */
} psrt_push_part;

/* psrt_last_push gives the number of the push that this thread's latest failed call left
 * in doubt, 0 where none. A push that failed may be there in part: servers take their
 * parts one by one. With bsp it is psrt_clock that fails, and the number stands for all
 * pushes of the step. Of an _async push psrt_wait or psrt_test fails. A client remembers
 * its last 64; they end with it. Never fails. Since ABI 1.3. */
uint64_t psrt_last_push(void);

/* psrt_push_status tells what has become of each part of a push that failed: *n parts,
 * where parts has room for them; else PSRT_ETOOSMALL, and *n says how many (room may be 0
 * and parts NULL then). It asks the servers, for at most a second. A part that is
 * PSRT_PUSH_UNKNOWN is sent until it is answered, as long as the client is open, and counts
 * once: ask again, or let psrt_push_missing wait. PSRT_EINVAL (no push of that number, or a
 * wrong size), PSRT_EHANDLE, PSRT_EFAULT, PSRT_ECLOSED, PSRT_EFORKED. Since ABI 1.3. */
int psrt_push_status(psrt_client *client, uint64_t push, psrt_push_part *parts, size_t room, size_t *n);

/* psrt_push_states tells of each of n keys of such a push what has become of it:
 * states[i] is a PSRT_PUSH_*. keys are keys of the push: another key has the state of its
 * lane, or is PSRT_EINVAL where the push has no part there. Errors as psrt_push_status.
 * Since ABI 1.3. */
int psrt_push_states(psrt_table *table, uint64_t push, const uint64_t *keys, size_t n, uint8_t *states);

/* psrt_push_missing repeats exactly what is missing of such a push: it waits until every
 * part is known, and pushes the keys that are PSRT_PUSH_MISSING. keys and grads are those
 * of the push. When it returns PSRT_OK all of the push counts, each key once. When it fails
 * it may be called again with the same number. Errors as psrt_push_sparse and
 * psrt_push_status. Since ABI 1.3. */
int psrt_push_missing(psrt_table *table, uint64_t push, const uint64_t *keys, size_t n, const float *grads,
                      const psrt_call_options *options);

/* --------------------------------------------------------------- save and load */

/* psrt_save writes all tables and the dense vector to the directory dir, which the
 * servers must see (a local path, or a shared file system), in the format of
 * docs/model-format.md. dir holds the old model or the new one, whole, whatever
 * happens. A name with a scheme (s3://..., hdfs://..., file://...) and a directory that
 * holds an export or a history are PSRT_EINVAL: save to a directory and copy it. So is a
 * name that ends in @NUMBER, which commands read as a generation. Other files in dir stay.
 * One worker calls it, while no pushes are under way. options may be NULL; flags PSRT_WEIGHTS_ONLY; the timeout defaults to 10 minutes.
 * PSRT_EINVAL, PSRT_EHANDLE, PSRT_EIO, PSRT_ESERVER, PSRT_ETIMEDOUT, PSRT_ECONNECT,
 * PSRT_EFORKED. */
int psrt_save(psrt_client *client, const char *dir, const psrt_call_options *options);

/* psrt_load replaces the rows of all tables in dir, and the dense vector, by what
 * dir holds; the same tables must be open at the servers (PSRT_EMISMATCH). Errors as
 * psrt_save. */
int psrt_load(psrt_client *client, const char *dir, const psrt_call_options *options);

#ifdef __cplusplus
}
#endif

#endif /* PSRT_H */

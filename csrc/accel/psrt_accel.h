/* psrt_accel.h - the interface of an accelerator, whose memory psrt keeps rows of coming
 * batches in. CUDA is one (csrc/cuda/table.c), the twin of the tests another
 * (csrc/accel/testdata/twin.c), and you may write your own.
 *
 * Compile it as a shared library that exports psrt_accel_get, and name the file:
 *
 *   psrt train ... --hbm-budget 8GiB --hbm-device so:./my-accelerator.so
 *
 * WHAT IT IS. Memory of a device at addresses that are numbers, streams of work in
 * order, events in them, copies, and kernels: seven for rows, the others for a model's dense layers. One that
 * refuses the numbers of the latter is one for rows alone. The kernels' source is
 * csrc/ptx/rows.cu with what it includes: CUDA C that also compiles as C; what they
 * do, bit by bit, is said there. Each has one argument, a structure of those below.
 *
 * WHAT IS PROMISED TO IT. Calls come from one thread at a time for a device that was
 * opened; several are open at once, also of the same number, and then called at once: what they
 * share is the library's to guard. Memory that a stream
 * copies stays until an event behind the copy has passed. close comes last.
 *
 * WHAT IT PROMISES. What is given to a stream is done in order; of two streams what comes
 * first is open, but for wait. Calls on streams
 * return without waiting, but for copies of memory that host_alloc has not given, which
 * may wait for the stream. Kernels reach memory of host_alloc at its own address. A call
 * returns 0, PSRT_ACCEL_NO_MEMORY, or another number that text explains; a device that
 * failed once fails every call.
 *
 * VERSIONS. Structs grow at their end only; `size` tells what the other side knows. wait came
 * later: without it, by size or as NULL, all work on rows is in one stream, and copies of
 * rows that come ahead are not beside it. timed_event and between came later still, together: without
 * them nobody is told how long copies and kernels take.
 */
#ifndef PSRT_ACCEL_H
#define PSRT_ACCEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSRT_ACCEL_ABI 1u

enum { PSRT_ACCEL_OK = 0, PSRT_ACCEL_NO_MEMORY = 1 };

/* The kernels, by number: psrt_gather_rows ... psrt_loss. */
enum {
	PSRT_ACCEL_GATHER_ROWS,  /* psrt_accel_batch */
	PSRT_ACCEL_PUT_ROWS,     /* psrt_accel_batch */
	PSRT_ACCEL_UPDATE_ROWS,  /* struct update of rows.cu */
	PSRT_ACCEL_GATHER_PARTS, /* struct parts_gather of parts.h */
	PSRT_ACCEL_UPDATE_PARTS, /* struct parts_update of parts.h */
	PSRT_ACCEL_FIND_ROWS,    /* struct find of find.h */
	PSRT_ACCEL_FIND_PARTS,   /* struct parts_find of find.h */
	PSRT_ACCEL_PRODUCT,      /* struct product of dense.h; so many rows as tiles */
	PSRT_ACCEL_ACTIVATE,     /* struct layer of dense.h, as all below */
	PSRT_ACCEL_ACTIVATE_BACK,
	PSRT_ACCEL_NORMALIZE,
	PSRT_ACCEL_NORMALIZE_BACK,
	PSRT_ACCEL_OUTPUT,
	PSRT_ACCEL_OUTPUT_BACK,
	PSRT_ACCEL_CROSS,
	PSRT_ACCEL_CROSS_BACK,
	PSRT_ACCEL_ADD,
	PSRT_ACCEL_LOSS,
	PSRT_ACCEL_KERNELS,
};

/* What every argument begins with. Row i is stride floats at rows + 4 * i * stride, for
 * i < count; flat has n rows of width floats, each step floats further on. */
typedef struct psrt_accel_batch {
	uint64_t rows, flat, ids; /* addresses on the device; ids are uint32_t */
	uint64_t stride, count, n, width, step;
} psrt_accel_batch;

typedef struct psrt_accel_ops {
	uint32_t size;    /* sizeof(psrt_accel_ops) of the library */
	uint32_t abi;     /* PSRT_ACCEL_ABI */
	const char *name; /* of the accelerator, for people; at most 63 bytes */

	/* The text of a result other than 0. It lives as long as the library. */
	const char *(*text)(int32_t result);
	int32_t (*count)(int32_t *devices);
	int32_t (*open)(int32_t device, void **at);
	int32_t (*close)(void *at);
	int32_t (*room)(void *at, uint64_t *free_bytes, uint64_t *total);

	/* Memory of the device, aligned to 256 bytes; of the host, which it copies fastest and
	 * reaches. */
	int32_t (*alloc)(void *at, uint64_t bytes, uint64_t *address);
	int32_t (*free)(void *at, uint64_t address);
	int32_t (*host_alloc)(void *at, uint64_t bytes, void **address);
	int32_t (*host_free)(void *at, void *address);

	int32_t (*stream)(void *at, void **stream);
	int32_t (*stream_end)(void *at, void *stream);
	int32_t (*event)(void *at, void **event);
	int32_t (*event_end)(void *at, void *event);
	int32_t (*record)(void *at, void *event, void *stream);
	/* passed is 1 when all before the event is over, and of one that was never recorded. */
	int32_t (*passed)(void *at, void *event, int32_t *passed);

	int32_t (*to_device)(void *at, void *stream, uint64_t to, const void *from, uint64_t bytes);
	int32_t (*to_host)(void *at, void *stream, void *to, uint64_t from, uint64_t bytes);
	/* n rows of width bytes that lie together, each pitch bytes further on at the host. */
	int32_t (*rows_to_host)(void *at, void *stream, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n);
	int32_t (*fill)(void *at, void *stream, uint64_t to, int32_t byte, uint64_t bytes);
	/* Kernel number kernel for n rows; argument is read before it returns. */
	int32_t (*run)(void *at, void *stream, int32_t kernel, uint64_t n, const void *argument, uint64_t bytes);

	/* What is given to the stream from now on waits for an event, as it was recorded last,
	 * of another stream; the caller does not. */
	int32_t (*wait)(void *at, void *stream, void *event);

	/* An event for record, passed and event_end, of which between tells the time since another
	 * such, when both have passed, in ms. */
	int32_t (*timed_event)(void *at, void **event);
	int32_t (*between)(void *at, void *first, void *last, float *ms);
} psrt_accel_ops;

/* The one symbol that the library exports. The answer lives as long as it. */
const psrt_accel_ops *psrt_accel_get(void);

#ifdef __cplusplus
}
#endif

#endif

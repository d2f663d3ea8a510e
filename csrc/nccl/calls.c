#include "library.h"

#include <string.h>

#define AT(address) ((void *)(uintptr_t)(address))

enum { SUCCESS = 0, IN_PROGRESS = 7 };

static psrt_nccl_id_value value(const uint8_t *id)
{
	psrt_nccl_id_value v;
	memcpy(v.bytes, id, sizeof v.bytes);
	return v;
}

int32_t psrt_nccl_id(const psrt_nccl *lib, uint8_t *id)
{
	psrt_nccl_id_value v;
	int e = lib->get_id(&v);
	if (!e)
		memcpy(id, v.bytes, sizeof v.bytes);
	return e;
}

int32_t psrt_nccl_init(const psrt_nccl *lib, int32_t ranks, const uint8_t *id, int32_t rank, void **comm)
{
	if (!(psrt_nccl_has(lib) & PSRT_NCCL_HAS_CONFIG))
		return lib->init_rank(comm, ranks, value(id), rank);
	psrt_nccl_config config = { sizeof config, PSRT_NCCL_MAGIC, PSRT_NCCL_CONFIG_VERSION, 0 };
	return lib->init_config(comm, ranks, value(id), rank, &config);
}

int32_t psrt_nccl_state(const psrt_nccl *lib, void *comm, int32_t *state) { return lib->async_error(comm, state); }
int32_t psrt_nccl_finalize(const psrt_nccl *lib, void *comm) { return lib->finalize ? lib->finalize(comm) : SUCCESS; }
int32_t psrt_nccl_destroy(const psrt_nccl *lib, void *comm) { return lib->destroy(comm); }
int32_t psrt_nccl_abort(const psrt_nccl *lib, void *comm) { return lib->abort(comm); }
int32_t psrt_nccl_register(const psrt_nccl *lib, void *comm, uint64_t at, uint64_t bytes, void **handle) { return lib->reg(comm, AT(at), bytes, handle); }
int32_t psrt_nccl_deregister(const psrt_nccl *lib, void *comm, void *handle) { return lib->dereg(comm, handle); }

int32_t psrt_nccl_all_reduce(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type, int32_t op)
{
	return lib->all_reduce(AT(send), AT(recv), count, type, op, comm, stream);
}

int32_t psrt_nccl_reduce_scatter(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type, int32_t op)
{
	return lib->reduce_scatter(AT(send), AT(recv), count, type, op, comm, stream);
}

int32_t psrt_nccl_all_gather(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type)
{
	return lib->all_gather(AT(send), AT(recv), count, type, comm, stream);
}

int32_t psrt_nccl_broadcast(const psrt_nccl *lib, void *comm, void *stream, uint64_t at, uint64_t count, int32_t type, int32_t root)
{
	return lib->broadcast(AT(at), AT(at), count, type, root, comm, stream);
}

/* Of a communicator that does not block, calls inside a group answer that they are in
 * progress, too. */
#define STEP(call) do { \
	int e_ = (call); \
	if (e_ != SUCCESS && e_ != IN_PROGRESS && first == SUCCESS) \
		first = e_; \
} while (0)

int32_t psrt_nccl_exchange(const psrt_nccl *lib, void *comm, void *stream, const psrt_nccl_part *parts, int32_t ranks, int32_t type)
{
	int first = lib->group_start();
	if (first)
		return first;
	for (int32_t r = 0; r < ranks; r++) {
		if (parts[r].sends)
			STEP(lib->send(AT(parts[r].send), parts[r].sends, type, r, comm, stream));
		if (parts[r].recvs)
			STEP(lib->recv(AT(parts[r].recv), parts[r].recvs, type, r, comm, stream));
	}
	int e = lib->group_end(); /* always: the group is the thread's */
	return first ? first : e;
}

int32_t psrt_nccl_all_reduces(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type, int32_t op, int32_t times)
{
	for (int32_t i = 0; i < times; i++) {
		int state, e = lib->all_reduce(AT(send), AT(recv), count, type, op, comm, stream);
		while (e == IN_PROGRESS && !(e = lib->async_error(comm, &state)))
			e = state;
		if (e)
			return e;
	}
	return SUCCESS;
}

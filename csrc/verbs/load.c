#include "load.h"
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct psrt_ibv psrt_ibv;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int result;
static char why[256];

static const struct {
	const char *name;
	void *slot;
} symbols[] = {
#define S(f) { "ibv_" #f, &psrt_ibv.f }
	S(get_device_list), S(free_device_list), S(get_device_name), S(open_device), S(close_device),
	S(query_device), S(query_port), { "_ibv_query_gid_ex", &psrt_ibv.query_gid_ex },
	{ "_ibv_query_gid_table", &psrt_ibv.query_gid_table },
	S(alloc_pd), S(dealloc_pd), S(reg_mr), S(dereg_mr),
	S(create_comp_channel), S(destroy_comp_channel), S(create_cq), S(destroy_cq),
	S(get_cq_event), S(ack_cq_events), S(create_qp), S(modify_qp), S(destroy_qp), S(create_srq), S(destroy_srq),
	S(get_async_event), S(ack_async_event), S(fork_init), S(wc_status_str), S(event_type_str),
#undef S
};

static void load(void)
{
	/* Never closed: its providers keep state. */
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *e = dlerror();
		snprintf(why, sizeof why, "%s", e ? e : "dlopen failed");
		result = -ENOENT;
		return;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(lib, symbols[i].name);
		if (!f) {
			snprintf(why, sizeof why, "libibverbs.so.1 has no %s: older than rdma-core 32", symbols[i].name);
			result = -ENOSYS;
			return;
		}
		memcpy(symbols[i].slot, &f, sizeof f);
	}
	void *f = dlsym(lib, "ibv_reg_dmabuf_mr");
	memcpy(&psrt_ibv.reg_dmabuf_mr, &f, sizeof f);
	/* Before any other call, so that a fork does not take registered pages
	 * away; kernels since 5.12 need nothing and say so at once. A refusal
	 * costs only fork safety. */
	(void)psrt_ibv.fork_init();
}

int psrt_verbs_load(char *missing, int n)
{
	pthread_once(&once, load);
	if (result)
		snprintf(missing, n, "%s", why);
	return result;
}

const char *psrt_verbs_status_text(uint32_t status) { return psrt_ibv.wc_status_str((enum ibv_wc_status)status); }

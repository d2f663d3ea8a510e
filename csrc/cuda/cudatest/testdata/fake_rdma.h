/* What network cards are to the fake driver of fake.c, which includes this.
 *
 * PSRT_FAKE_CUDA_RDMA    what a network card writes is seen at once (ordered), or when it is
 *                        flushed (flush), else never; may change
 * PSRT_FAKE_CUDA_DMABUF  the device's memory is said to be behind a file, which is none of
 *                        an RDMA device's */

/* 117: how writes of network cards are flushed, by the host; 118: those need it. */
int cuDeviceGetAttribute(int *v, int a, int d)
{
	(void)d;
	const char *rdma = getenv("PSRT_FAKE_CUDA_RDMA");
	*v = a == 75 ? 9 : a == 117 ? rdma && !strcmp(rdma, "flush") : a == 118 ? rdma && !strcmp(rdma, "ordered") ? 100 : 0 : 0;
	return OK;
}

int cuFlushGPUDirectRDMAWrites(unsigned target, unsigned scope)
{
	const char *rdma = getenv("PSRT_FAKE_CUDA_RDMA");
	CALL({ r = target || scope != 100 ? INVALID : rdma && !strcmp(rdma, "flush") ? OK : LAUNCH; });
}

int cuMemGetHandleForAddressRange(int *fd, unsigned long long at, size_t n, unsigned kind, unsigned long long flags)
{
	size_t page = sysconf(_SC_PAGESIZE);
	if (!getenv("PSRT_FAKE_CUDA_DMABUF"))
		return 801; /* CUDA_ERROR_NOT_SUPPORTED */
	CALL({
		r = INVALID;
		if (at % page == 0 && n % page == 0 && n && kind == 1 && !flags && (*fd = memfd_create("no dma-buf", MFD_CLOEXEC)) >= 0)
			r = OK;
	});
}

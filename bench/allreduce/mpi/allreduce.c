/* The rival: MPI_Allreduce of float sums, timed as osu_allreduce does, iteration by
 * iteration. Arguments: seed, then bytes and iterations of each size. Rank 0 prints a
 * line for each: bytes, the median time in microseconds of the slowest rank, and the
 * checksum of its result. Every rank holds its result against the pattern's sum.
 *
 * OpenMPI is loaded, not linked: its library comes with mpirun, its headers are
 * another package. What is used of it has been the same from version 1.7 to 5:
 * handles are the addresses of objects that the library names. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	int (*init)(int *, char ***), (*finalize)(void), (*abort)(void *, int);
	int (*rank)(void *, int *), (*size)(void *, int *), (*barrier)(void *);
	int (*allreduce)(const void *, void *, int, void *, void *, void *);
	int (*reduce)(const void *, void *, int, void *, void *, int, void *);
	double (*wtime)(void);
	void *world, *type_float, *type_double, *sum, *max;
} mpi;

static void load(void)
{
	void *lib = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		lib = dlopen("libmpi.so", RTLD_NOW | RTLD_GLOBAL);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	struct {
		const char *name;
		void **to;
	} all[] = {
		{"MPI_Init", (void **)&mpi.init}, {"MPI_Finalize", (void **)&mpi.finalize}, {"MPI_Abort", (void **)&mpi.abort},
		{"MPI_Comm_rank", (void **)&mpi.rank}, {"MPI_Comm_size", (void **)&mpi.size}, {"MPI_Barrier", (void **)&mpi.barrier},
		{"MPI_Allreduce", (void **)&mpi.allreduce}, {"MPI_Reduce", (void **)&mpi.reduce}, {"MPI_Wtime", (void **)&mpi.wtime},
		{"ompi_mpi_comm_world", &mpi.world}, {"ompi_mpi_float", &mpi.type_float}, {"ompi_mpi_double", &mpi.type_double},
		{"ompi_mpi_op_sum", &mpi.sum}, {"ompi_mpi_op_max", &mpi.max},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!(*all[i].to = dlsym(lib, all[i].name))) {
			fprintf(stderr, "the MPI library has no %s: it is not OpenMPI's\n", all[i].name);
			exit(1);
		}
}

static float value(uint32_t i, uint32_t rank, uint32_t seed)
{
	return (float)((int32_t)((i * 2654435761u + rank * 40503u + seed) >> 16 & 7) - 3);
}

static uint32_t crc32_ieee(const unsigned char *p, size_t n)
{
	uint32_t table[256], c;
	for (uint32_t i = 0; i < 256; i++) {
		c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
		table[i] = c;
	}
	c = ~0u;
	for (size_t i = 0; i < n; i++)
		c = table[(c ^ p[i]) & 255] ^ c >> 8;
	return ~c;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void die(const char *why)
{
	fprintf(stderr, "%s\n", why);
	mpi.abort(mpi.world, 1);
}

static void measure(size_t bytes, int iterations, uint32_t seed, int rank, int ranks)
{
	size_t n = bytes / sizeof(float);
	float *send = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), *recv = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	double *times = malloc(iterations * sizeof *times), mine, slowest;
	int warm = iterations / 10 + 2;
	if (!send || !recv || !times)
		die("out of memory");
	for (size_t i = 0; i < n; i++)
		send[i] = value(i, rank, seed);
	memset(recv, 0, bytes);
	mpi.barrier(mpi.world);
	for (int i = 0; i < warm + iterations; i++) {
		double start = mpi.wtime();
		mpi.allreduce(send, recv, n, mpi.type_float, mpi.sum, mpi.world);
		if (i >= warm)
			times[i - warm] = (mpi.wtime() - start) * 1e6;
	}
	for (size_t i = 0; i < n; i++) {
		float want = 0;
		for (int r = 0; r < ranks; r++)
			want += value(i, r, seed);
		if (recv[i] != want)
			die("the result is wrong");
	}
	qsort(times, iterations, sizeof *times, ascending);
	mine = (times[(iterations - 1) / 2] + times[iterations / 2]) / 2;
	mpi.reduce(&mine, &slowest, 1, mpi.type_double, mpi.max, 0, mpi.world);
	if (rank == 0)
		printf("%zu %.3f %08x\n", bytes, slowest, crc32_ieee((unsigned char *)recv, bytes));
	free(send);
	free(recv);
	free(times);
}

int main(int argc, char **argv)
{
	int rank, ranks;
	load();
	mpi.init(&argc, &argv);
	mpi.rank(mpi.world, &rank);
	mpi.size(mpi.world, &ranks);
	if (argc < 4 || argc % 2)
		die("usage: allreduce SEED BYTES ITERATIONS ...");
	for (int i = 2; i < argc; i += 2)
		measure(strtoull(argv[i], NULL, 10), atoi(argv[i + 1]), strtoul(argv[1], NULL, 10), rank, ranks);
	mpi.finalize();
	return 0;
}

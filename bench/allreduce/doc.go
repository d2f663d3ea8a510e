// Package allreduce measures the all-reduce of package nccl/ring beside the machine's
// own limit and beside OpenMPI's, which take turns in one run.
//
// It owns the processes of both, the pattern that all of them reduce and the check
// of what comes out. It must not know flags or how reports are shown.
//
// The life of one run: Run starts the program again, once for each rank, whose body
// is Serve; compiles the program in mpi/; then plays rounds. In
// each, the ranks reduce vectors of every size, copy (shm) or stream (tcp) as many
// bytes as the limit, and mpirun starts as many processes that reduce the same
// vectors. Every rank of either holds its result against the sum that the pattern
// has, element by element, and their checksums must be one.
package allreduce

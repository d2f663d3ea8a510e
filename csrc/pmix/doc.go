// Package pmix asks the process manager that started this process (SLURM's
// --mpi=pmix, Open MPI's mpirun) who it is, and exchanges small values with the
// other processes of the job, through the PMIx library of this machine.
//
// It owns loading the library (dlopen of libpmix.so.2; nothing is linked), the
// few structures of its ABI, and the bounds of waiting: a fence has no cancel, so
// it runs on a thread of its own, is given PMIX_TIMEOUT, and whoever waits for it
// leaves when the context ends. It must not know what the values mean.
//
// The life of an exchange:
//
//	Open     dlopen, PMIx_Init        rank, job
//	Put      PMIx_Put                 a value of this process
//	Fence    PMIx_Commit, PMIx_Fence  everybody has put
//	Get      PMIx_Get                 a value of any process
//	Close    PMIx_Finalize            mpirun takes an end without it for a failure
//
// Without cgo Open answers ErrNotSupported.
package pmix

// Package nccl is NVIDIA's collectives, libnccl.so.2, which is loaded when it is asked
// for: nothing of NCCL or CUDA is needed to build, and where the library is not, or is too
// old, Load says so.
//
// It owns the prototypes, the numbers of NCCL's types, operations and results, and what
// each version has. It must not know CUDA beyond a stream's handle, nor who asks for which
// collective, or why.
//
// The life of a communicator:
//
//	Load, Library.UniqueID     the library; an id that one rank makes for all
//	Library.Init               this rank's end; where the version can, it returns at once
//	Comm.State                 until it is Success: Init, and each call, goes on by itself
//	Comm.AllReduce and others  work for a stream, which CUDA's events tell the end of
//	Comm.State                 an error that came later, of another rank's death too
//	Comm.Finalize, Destroy     the end in order; Abort ends what is under way, and waits
//	                           for the card
//
// Every call is made in the context of the device that the communicator was made in
// (cuda.Device.In): NCCL asks the thread for it. One goroutine at a time uses a Comm, but
// Abort, which may come from any.
//
// Without cgo Load answers ErrNotSupported.
package nccl

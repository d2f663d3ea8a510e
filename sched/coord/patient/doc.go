// Package patient makes of a coordinator that may be away for a while one that is
// only slow: calls and watches wait until it is back.
//
// It owns the repeating, and where that would be wrong. It must not know how the coordinator is reached. Use it where the
// coordinator outlives its clients (etcd); where it is part of a process of the job,
// its end means something and must be seen.
//
// # The life of a call
//
//	try -> ErrUnavailable -> wait (Least to Most, doubling) -> try ... until ctx ends
//
// A CompareAndPut whose answer is lost is not repeated: whether it has happened only
// its caller can tell, who gets coord.ErrUnavailable. A Delete that is repeated and
// finds nothing has happened. A watch is begun again behind
// the last revision it has seen. A put that is repeated may raise the revision
// twice.
package patient

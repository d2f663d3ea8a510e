// Package coord is what ranks of a job agree through: a small store of keys
// with revisions, watches and leases, in the shape that etcd has, and the
// meeting points built on it (Barrier, Gather, Session, the abort flag).
//
// It owns the interface and the helpers. The implementations are its
// sub-packages: local (in this process) and remote (a client of another
// process's). It must not know what the keys mean, transports, launchers or
// placement. coordtest is the conformance suite of all implementations.
//
// # The life of a barrier
//
//	List(prefix)            who is here already, at revision r
//	Watch(prefix, r+1)      who comes from now on
//	CompareAndPut(own, 0)   I am here (once)
//	... events ...          until all n were seen at the same time
//	Delete(own)             leave nothing behind
//
// A rank whose lease ends takes its keys with it, so the others see it go.
//
// # Waits and bounds
//
// Every call takes a context; waiting helpers refuse one without a deadline.
// A watcher queues at most QueueEvents events; one that does not keep up is
// ended with ErrLagging and must list again. Values are at most MaxValue.
package coord

// Package etcd is the coordinator that outlives processes: an etcd of the user's
// (Dial), one that lives in this process with a data directory of its own (Start), or
// one that several processes of a job keep together (StartMember).
//
// It owns the translation between coord.Coordinator and etcd, and how an embedded
// etcd is set up: one member, reached inside the process and by unix sockets in
// its own directory, with short ticks, since it has nobody to wait for. It must not
// know what keys mean. Only servers import it: workers and libpsrt reach the same
// store through coord/remote, and etcd is in no library of ours.
//
// # The life of a change
//
//	CompareAndPut  ->  one Txn: if the key's ModRevision is still ours, put
//	etcd's revision    is the store's: one for each change, and one for the end of
//	                   a lease with all its keys
//	Watch          ->  created at the server before Watch returns; events go through
//	                   a queue of coord.QueueEvents, and a reader that does not keep
//	                   up is ended with coord.ErrLagging
//
// # When etcd is away
//
// Calls fail with coord.ErrUnavailable, or at their deadline; watches stay, and go
// on where they were when it is back. Leases are kept by etcd's own clock: it gives
// them their whole time again after a new leader. A lease is MinTTL long at least.
package etcd

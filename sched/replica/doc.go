// Package replica is the server process of a job with replicas: one listener, a
// server for each group that the shard map gives to the process, and a part in the
// decision on the next map. docs/replication.md, "A server process", is the protocol.
//
// It owns the process's number and generation, its registration in the store, beats
// to the other servers, the map that it has adopted, and which group's server gets an
// incoming connection. It must not know what a group's server does (Group does),
// tables, or how rows travel. What follows from what it knows is decided without
// clocks and goroutines by core, out of sched/member and sched/place.
//
// # The life of a server's death
//
//	its connections end, or its answers stay away     link.go -> member.Peers
//	member.Decide: the map without it                 core.go
//	compare and swap                                  store.go
//	the watch, or a beat that names a newer map       Member.learn
//	every group's server adopts it                    adopt.go, seat.go
//	beats are answered with the new epoch             core.adopt
//	the dead server's leases have ended               core.due -> Group.Fenced
//
// # Locks
//
// Member.mu guards the core; nothing blocks under it. seat.mu is inner. Calls to a
// Group that may wait for its lane (Adopt, Fenced, Hold) are made without locks.
//
// # Bounds
//
// A peer has at most maxBeats questions on the way and one connection; visitors are
// at most maxVisitors; one map is adopted and one proposed at a time.
package replica

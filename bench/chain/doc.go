// Package chain measures what replication costs and what it saves: pushes to a chain of
// three servers beside pushes to one, over a link with a rate; how long pulls and pushes
// stand still when a member is killed, and how soon there are as many members again; and
// what a pull takes while groups move to a server that was added.
//
// It owns the hosts (namespaces, the switch between them), the servers' processes, the
// load and the check of the sums. It must not know flags or how reports are shown, nor
// how members agree.
//
// # The life of one run
//
// Run starts the program again as the station, which is the workers and the store; the
// station starts the switch and the servers, each in a namespace of its own:
//
//	station                 switch                       servers
//	workers, store   ---->  forwards; the port to  ----> sched/replica,
//	(sched/client)          each of them has the         killed and started again
//	                        rate                         as the run wants it
//
// The namespaces have no names and end with their processes, so however a run ends,
// nothing is left.
//
// All pushes are integers at rate 1: at the end of each part every row is pulled and
// must be the sum of what was acknowledged.
package chain

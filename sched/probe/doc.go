// Package probe meters who sends how much to this server: bytes and messages
// per source, in the kernel where it can (eBPF), and by the runtime's own
// counters where it cannot.
//
// It owns the loading of the programs in csrc/bpf, whose objects are committed
// here, and the View that makes rates of counts. It must not know requests,
// tables or grants: whose a source is, the caller says; what follows from a
// straggler, sched/fanin decides.
//
// # The meters
//
//	TCP       per connection: the kernel's own counts, walked when read
//	          (iter/tcp), and once more when a connection closes
//	RoCE      per sender and queue pair: packets of soft-RoCE as they come in
//	          by an interface (tcx, or the filter of a packet socket)
//	USDT      per queue pair: what the points in csrc/verbs tell of a
//	          process's completions and requests, on cards too
//	Devices   per port: what RDMA devices count themselves
//	Counters  the runtime's own counts, given by a function
//
// Opening one that this machine cannot have is a *MissingError that names what
// lacks and who brings it; nothing else fails with it. Together joins several.
//
// # The life of a byte in here
//
// It arrives, and is counted: by the kernel in its connection, or by a program
// in a table of the kernel's. Read makes a Reading of such Counts, each of one
// Source. View's Update subtracts the Reading before, adds the growth to the
// source, its worker and all, and divides by the time between. FanIn shows the
// sums, the rates, and which workers are stragglers or hot.
//
// # Nothing stays behind
//
// All is attached by what belongs to file descriptors, nothing is pinned:
// when a Meter closes or the process dies, however, the kernel detaches it.
package probe

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
//	Counters  the runtime's own counts, given by a function
//
// Opening one that this machine cannot have is a *MissingError that names what
// lacks and who brings it; nothing else fails with it.
//
// # The life of a byte in here
//
// It arrives, and the kernel counts it: in its connection. Read makes a Reading of such Counts, each of one Source. View's
// Update subtracts the Reading before, adds the growth to the source, its
// worker and all, and divides by the time between. FanIn shows the sums, the
// rates, and which workers are stragglers or hot.
//
// # Nothing stays behind
//
// All is attached by links that belong to file descriptors, nothing is pinned:
// when a Meter closes or the process dies, however, the kernel detaches it.
package probe

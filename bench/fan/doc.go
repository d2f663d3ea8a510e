// Package fan measures many workers that push to one server through one link,
// as when a step ends, and what a small pull has to wait meanwhile.
//
// It owns the link (namespaces, the switch between them), the load, the probe,
// what is counted, and the check that the sums at the server are those of the
// pushes. It must not know flags or how reports are shown, nor how a server
// decides who may send.
//
// # The life of one run
//
// Run starts the program again as the station, which is all the workers; the
// station starts the server and, for a link of its own, the switch:
//
//	station               switch                       server
//	namespace 1           namespace 2                  namespace 3
//	workers, probe  ----> forwards; the port to  ----> sched/server, once
//	(sched/client)        the server has the rate      for each mode
//
// The switch is a namespace of its own, because a sender whose own queue is
// full is told so by the kernel, and sends less: behind a hop it is not, as in a
// network. The namespaces have no names and are nobody's but the three
// processes', which die with whoever started them: however a run ends, nothing
// is left.
//
// For each number of workers the station measures what the link itself carries;
// then, mode by mode, the probe alone, all workers pushing with the probe beside
// them, and when all is summed the dense vector at the server, element by
// element.
package fan

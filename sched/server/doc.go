// Package server is one server rank: lanes that own tables and dense blocks,
// and the sessions through which workers reach them.
//
// It owns the request loop, the order in which pushes take effect, and the
// control calls (open, digest, save, load, stats). It must not know concrete
// transports (dial hands it endpoints), launchers, models or flags.
//
// # The life of a request
//
//	worker                         lane
//	write-imm(request) --------->  landing slot k
//	                               decode, check; fetch what did not ride along
//	                               pull: wait for the clock, look up, gather
//	                               push: in order per session, once per sequence
//	values  <--------------------  write (or stored in place where mapped)
//	reply slot k <---------------  write-imm(reply): frees slot k
//
// # Lanes
//
// A lane is one goroutine. It alone touches its tables, its clock and its
// sessions' state; other goroutines reach it only through do, which queues a
// function and wakes it. Lanes share nothing, so there are no locks to order.
//
// # Bounds
//
// Per session and lane: Slots requests (each has a request struct of its own),
// as many posted receives, one staging area per slot that grows to the largest
// request seen and at most to MaxStageBytes, and Tickets remembered pulls.
// Parked pulls and held pushes are requests and thus bounded by the same sum:
// workers x Slots.
package server

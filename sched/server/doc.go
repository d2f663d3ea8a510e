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
// # Rows on disks
//
// A lane works on tiers.Rows. A lookup that has to wait for a disk parks its
// request (finding = reading), and the lane goes on; disks wake it. Rows are
// pinned from the lookup to the reply, by a ticket until it is used or gives way,
// by a push until it is applied. Where all of memory is pinned the oldest tickets
// go first (their pushes come again with keys), then requests wait in starved, in
// order; what can never have room is refused by name. Pushes are looked up ahead
// and taken in order; in BSP a step is not applied while a pull before it reads, and
// where only pushes make rows it makes them all when it is applied (bear).
// Workers announce the keys of coming steps, which only tables on disks heed.
//
// # Checkpoints
//
// Worker 0 arms a cut at a step (Cut). Each lane takes it between two steps, in
// the time that marking takes, and then gives chunks of rows to a goroutine that
// writes part files; between requests when busy, steadily when idle. CutDone ends
// it: what was not committed is in the next delta again.
//
// # Replicas
//
// With Config.Chain the one lane is a replica of a group of slots (chained; see
// sched/chain and docs/replication.md): at the head pushes are ordered, and at every
// member done when they are committed. Files chain*.go.
//
// # Bounds
//
// Per session and lane: Slots requests (each has a request struct of its own),
// as many posted receives, one staging area per slot that grows to the largest
// request seen and at most to MaxStageBytes, and Tickets remembered pulls.
// Parked pulls and held pushes are requests and thus bounded by the same sum:
// workers x Slots. Of pushes that are acknowledged before their bsp step is over (spills) a
// lane keeps at most maxSpill bytes a worker.
package server

// Package place says who owns what: key -> slot -> server and lane, and dense
// block -> lane.
//
// It owns the Map and the arithmetic that makes one. It must not know the
// network, time, tables, or how slots are carried from one server to another.
// A Map is a value: once made it never changes; a change of membership makes a
// new one with the next epoch.
//
// # The life of a key
//
//	key --mix--> 64 even bits --high bits--> slot --table--> lane
//
// A slot is the unit that moves. There is a fixed number of them for the life
// of a job, so that a key's slot never changes. Lanes are numbered through all
// servers: servers in ID order, lanes inside a server in theirs.
//
// # How slots get their servers
//
// New is consistent hashing with bounded loads: every server has points
// (virtual nodes) on a ring in proportion to its weight, every slot has a
// position, and goes to the first server clockwise that is not full. Full is
// 5 % above the fair share, so a ring without bounds and this one differ for
// few slots, and New for a similar set of servers gives a similar map.
//
// Change is for a live job: it moves the fewest slots that membership and
// balance demand, taking the running map as its start. Its result depends on
// the history, so the assignment is part of a Map's JSON.
//
// # Replicas
//
// Chains is the map of a job with replicas: slots in groups, each with a chain of
// servers (docs/replication.md). Target says where a set of servers should get to;
// Cut takes dead servers out at once; Step is the next map on the way, a few groups
// at a time, that never has fewer replicas for the sake of a move.
package place

package server

import (
	"encoding/binary"
	"fmt"
	"slices"

	"psrt/rdma/mem"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/ssd"
)

// A member that has no room for an op fails its copy, and all have about the same: the
// head refuses, before it is ordered, what would end the group.

// fitsShare is what a push's rows may be of those that fit in memory, in eighths, and
// what the rows that it makes may be of those that there is room for: members' indexes
// are not filled alike.
const fitsShare = 7

// roomy is a table with a bound.
type roomy interface {
	MayMake(rows, pinned int) bool
	Absent(keys, absent []uint64) []uint64
}

// stored is a table with rows on disks.
type stored interface {
	MayStore(rows int) bool
}

// fits says whether every member can do a push, with those that are ordered before it:
// have its rows in memory at a time, in BSP those of its step, and make what is missing.
// Of one that comes by a ticket the keys are known when it was redeemed.
func (c *chained) fits(r *request) error {
	if r.Kind != psmsg.KindPush || r.Rows == 0 {
		return nil
	}
	t := c.l.tables[r.Table]
	most := int(^uint(0) >> 1)
	if held, ok := t.rows.(interface{ Most() int }); ok {
		most = held.Most() / 8 * fitsShare
	}
	n, what := int(r.Rows), "a push"
	known := len(r.keys) == n
	all := n
	c.before(r, false, func(h *request) { all += int(h.Rows) })
	if t.sync.mode.BSP() {
		what = "pushes of one step"
		if all > most {
			n += len(distinct(c.keysUpTo(r, true))) - len(r.keys)
		} else {
			n = all
		}
	}
	if n > most {
		return fmt.Errorf("server: group %d: %s of %d rows of table %q, at most %d may be pushed at a time, seven eighths of those that fit in memory: push fewer rows at a time, or raise --mem-budget", c.cfg.Group, what, n, t.spec.Name, most)
	}
	room, ok := t.rows.(roomy)
	disks, limited := t.rows.(stored)
	mayStore := func(rows int) bool { return !limited || disks.MayStore(share(rows)) }
	if !ok || room.MayMake(share(all), n) && mayStore(all) {
		return nil
	}
	if known && len(room.Absent(r.keys, nil)) == 0 {
		return nil
	}
	makes := len(distinct(room.Absent(c.keysUpTo(r, false), nil))) // the same rows come again and again
	if !known {
		makes += int(r.Rows)
	}
	switch {
	case !room.MayMake(share(makes), n):
	case mayStore(makes):
		return nil
	default:
		return fmt.Errorf("server: group %d: table %q has %d rows, and no room on disks for %d more in seven eighths of the group's share of --ssd-limit: %w", c.cfg.Group, t.spec.Name, t.rows.Len(), makes, ssd.ErrFull)
	}
	return fmt.Errorf("server: group %d: table %q has %d rows, and no room for %d more in the group's share of --mem-budget, %d bytes", c.cfg.Group, t.spec.Name, t.rows.Len(), makes, c.l.cfg.MaxBytes)
}

// share is how many rows there must be room for here, for every member to have room for n.
func share(n int) int { return (8*n + fitsShare - 1) / fitsShare }

func distinct(keys []uint64) []uint64 {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// keysUpTo are the keys of a push and of those before it; step: of its step alone. Some
// may come twice.
func (c *chained) keysUpTo(r *request, step bool) []uint64 {
	keys := slices.Clone(r.keys)
	c.before(r, step, func(h *request) { keys = append(keys, h.keys...) })
	return keys
}

// before calls f for the pushes to a push's table that are ordered and not applied, with
// rows and keys; step: those of its step alone.
func (c *chained) before(r *request, step bool, f func(h *request)) {
	for _, h := range c.l.tables[r.Table].held {
		if !step || h.Clock == r.Clock {
			f(h)
		}
	}
	var of request
	c.m.Ordered(func(op *chain.Op) {
		b := op.Body
		if op.Kind != chain.Push || len(b) < bodyHeader || psmsg.Kind(b[0]) != psmsg.KindPush {
			return
		}
		le := binary.LittleEndian
		of.Table, of.Clock, of.Rows = le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint32(b[16:])
		end := bodyHeader + 8*int(of.Rows)
		if of.Table == r.Table && (!step || of.Clock == r.Clock) && end <= len(b) {
			of.keys = mem.Uint64s(b[bodyHeader:end])
			f(&of)
		}
	})
}

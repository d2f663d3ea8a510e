package kv

import (
	"sync"

	"psrt/sched/client"
)

// Tickets is how many pulls a table remembers; as many as the servers do.
const Tickets = 16

// tickets are the pulls that PushTicket may name, newest last.
type tickets struct {
	mu    sync.Mutex
	last  Ticket
	ring  [Tickets]*kept
	spare []*kept
}

// kept is what a ticket stands for.
type kept struct {
	number Ticket
	plan   client.Plan
	index  []int32
	plain  bool
}

// keep remembers a pull's plan.
func (k *tickets) keep(x *set, rows *client.Rows) Ticket {
	k.mu.Lock()
	var e *kept
	if n := len(k.spare); n > 0 {
		e, k.spare = k.spare[n-1], k.spare[:n-1]
	} else {
		e = &kept{}
	}
	k.mu.Unlock()
	rows.Save(&e.plan)
	e.index, e.plain = append(e.index[:0], x.index...), x.plain
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	e.number = k.last
	place := &k.ring[e.number%Tickets]
	if *place != nil {
		k.spare = append(k.spare, *place)
	}
	*place = e
	return e.number
}

// take finds and forgets a ticket; free gives its memory back.
func (k *tickets) take(t *Table, number Ticket, n int) (*kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	place := &k.ring[number%Tickets]
	e := *place
	if number == 0 || e == nil || e.number != number {
		if number == 0 || number > k.last {
			return nil, errorf(Stale, "kv: table %q gave no ticket %d; push with keys", t.spec.Name, number)
		}
		return nil, errorf(Stale, "kv: table %q: ticket %d is used or forgotten, the last %d of %d are remembered; push with keys", t.spec.Name, number, Tickets, k.last)
	}
	if n != len(e.index) {
		return nil, errorf(Invalid, "kv: table %q: ticket %d is for %d keys, not %d", t.spec.Name, number, len(e.index), n)
	}
	*place = nil
	return e, nil
}

// putBack has a ticket as before take, unless newer ones have its place by now.
func (k *tickets) putBack(e *kept) {
	k.mu.Lock()
	if place := &k.ring[e.number%Tickets]; *place == nil && e.number+Tickets > k.last {
		*place = e
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	k.free(e)
}

func (k *tickets) free(e *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.spare) < Tickets {
		k.spare = append(k.spare, e)
	}
}

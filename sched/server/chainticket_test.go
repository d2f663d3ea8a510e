package server

import (
	"testing"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// pullTicket pulls keys and gives the ticket of the answer.
func (k *chainWorker) pullTicket(group int, keys []uint64, flags psmsg.Flags) uint64 {
	k.w.t.Helper()
	rep, _ := k.ask(group, func(r *raw) psmsg.Request {
		req := r.pull(0, 0, len(keys))
		req.Keys, req.Values = r.put(0, keys, 0)
		req.Flags = flags
		return req
	})
	return rep.Ticket
}

// pushTicket pushes a value for n rows by ticket, and by keys where that is stale, as
// a client does.
func (k *chainWorker) pushTicket(group int, clock, ticket uint64, keys []uint64, value float32) (first psmsg.Code) {
	k.w.t.Helper()
	seq := k.seq[group] + 1
	request := func(r *raw) psmsg.Request {
		req := r.push(0, seq, clock, len(keys))
		req.Keys, req.Values = r.putRows(0, keys, value, testDim)
		return req
	}
	rep, _ := k.ask(group, func(r *raw) psmsg.Request {
		req := request(r)
		req.Flags |= psmsg.FlagTicket
		req.Ticket, req.Keys = ticket, r.at(rawKeys+1<<15, 8) // which are not looked at
		return req
	})
	first = rep.Code
	if first == psmsg.CodeStaleTicket {
		rep, _ = k.ask(group, request)
	}
	if rep.Code != psmsg.CodeOK {
		k.w.t.Errorf("push %d was answered %v, then %v", seq, first, rep.Code)
	}
	k.seq[group] = seq
	return first
}

// A push by ticket has the keys of its pull at every replica. A ticket that is used, of
// an earlier epoch or connection, or of other rows, is refused as such, and the push
// with keys counts once.
func TestChainTickets(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 1, staleness: Async, tables: []table.Spec{sgdTable()}}, 3, []int{0, 1, 2})
		k := w.worker(0, 1)
		keys := w.keysOf(0, 10)
		create := psmsg.FlagCreate
		sum, step := float32(0), uint64(0)
		push := func(what string, ticket uint64, of []uint64, want psmsg.Code) {
			t.Helper()
			if got := k.pushTicket(0, step, ticket, of, 1); got != want {
				t.Errorf("%s: answered %v, want %v", what, got, want)
			}
			step++
			if len(of) == len(keys) {
				sum--
			}
			for i, v := range k.pull(0, step, keys, false) {
				if len(of) == len(keys) && v != sum {
					t.Fatalf("%s: element %d is %v, want %v", what, i, v, sum)
				}
			}
		}
		first := k.pullTicket(0, keys, create)
		push("a ticket", first, keys, psmsg.CodeOK)
		push("a used one", first, keys, psmsg.CodeStaleTicket)
		push("none", 0, keys, psmsg.CodeStaleTicket)
		push("one of other rows", k.pullTicket(0, keys, create), keys[:3], psmsg.CodeStaleTicket)
		sum = k.pull(0, step, keys[9:], false)[0]
		for i := range keys[:3] { // all are equal again
			k.push(0, step, keys[i:i+1], -1, true)
			step++
		}
		old := k.pullTicket(0, keys, create)
		for range Tickets {
			k.pullTicket(0, keys[:2], create)
		}
		push("one that has expired", old, keys, psmsg.CodeStaleTicket)
		for _, flags := range []psmsg.Flags{0, create | psmsg.FlagNoClock} {
			if got := k.pullTicket(0, keys, flags); got != 0 {
				t.Errorf("a pull with flags %#x has ticket %#x", flags, got)
			}
		}
		old = k.pullTicket(0, keys, create)
		w.change(0, func(*chain.Config) {})
		push("one of an earlier epoch", old, keys, psmsg.CodeStaleTicket)
		old = k.pullTicket(0, keys, create)
		k.lose(0)
		push("one of an earlier connection", old, keys, psmsg.CodeStaleTicket)
		push("a new one", k.pullTicket(0, keys, create), keys, psmsg.CodeOK)
		old = k.pullTicket(0, keys, create)
		w.cut(w.nodes[0])
		push("one of the head before", old, keys, psmsg.CodeStaleTicket)
		push("one of the head", k.pullTicket(0, keys, create), keys, psmsg.CodeOK)
		if r, err := w.reader(w.nodes[2], 0, 0); err != nil {
			t.Error(err)
		} else {
			r.ask(step, 0, keys)
			if rep, ok := r.wait(patience); !ok || rep.Ticket != 0 {
				t.Errorf("a reader has ticket %#x, %v", rep.Ticket, ok)
			}
		}
		st, err := w.members(0)[0].Stats()
		must(t, err)
		if st.StaleTickets == 0 {
			t.Error("no stale tickets are counted")
		}
		w.alike()
	})
}

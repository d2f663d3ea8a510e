package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// reader connects a worker to a member of a group, to read.
func (w *chainWorld) reader(n *chainNode, group, worker int) (*raw, error) {
	w.t.Helper()
	h, err := dial.New(dial.Config{Transport: w.cfg.transport, Token: w.token, Listen: "127.0.0.1:0"})
	must(w.t, err)
	w.t.Cleanup(func() { h.Close() })
	r, err := knockAt(w.t, h, n.listen.Addr(), psmsg.Hello{Worker: worker, Client: 1, Chained: true, Group: group, Reads: true}.Says())
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(r.close)
	return r, r.open()
}

func (w *raw) ask(clock, least uint64, keys []uint64) {
	w.t.Helper()
	req := w.pull(0, clock, len(keys))
	req.Keys, req.Values = w.put(0, keys, -7)
	req.Seq = least
	w.send(req)
}

// Every member answers pulls, when its own clocks and version allow it, with a lease,
// and while it is in the chain; and nothing else.
func TestChainReaders(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 2, tables: []table.Spec{sgdTable()}, dense: 5}, 3, []int{0, 1, 2})
		k, other := w.worker(0, 1), w.worker(1, 2)
		keys := w.keysOf(0, 10)
		var readers []*raw
		for _, n := range w.nodes {
			r, err := w.reader(n, 0, 0)
			must(t, err)
			readers = append(readers, r)
		}
		want := func(r *raw, value float32) (version uint64) {
			t.Helper()
			rep, ok := r.wait(patience)
			if !ok || rep.Code != psmsg.CodeOK {
				t.Fatalf("answered %v, %v", rep.Code, ok)
			}
			for i, v := range r.values(len(keys)) {
				if v != value {
					t.Fatalf("element %d is %v, want %v", i, v, value)
				}
			}
			return rep.Version
		}
		version := uint64(0)
		for step := range uint64(3) {
			for _, r := range readers { // before the step is whole: they wait for it
				r.ask(step, 0, keys)
			}
			for _, r := range readers {
				version = want(r, -float32(2*step))
			}
			k.push(0, step, keys, 1, true)
			other.push(0, step, keys, 1, true)
		}
		tail := readers[2]
		tail.ask(3, version+4, keys) // two pushes more than there are
		k.push(0, 3, keys, 1, true)
		other.push(0, 3, keys, 1, true)
		if v := want(tail, -8); v < version+4 {
			t.Errorf("version %d, want %d or more", v, version+4)
		}
		middle := readers[1]
		for _, method := range []string{psmsg.MethodLeave, psmsg.MethodDigest, psmsg.MethodSave} {
			if err := middle.call(method, struct{}{}, nil); err == nil || !strings.Contains(err.Error(), "only reads") {
				t.Errorf("%s over a connection that only reads: %v", method, err)
			}
		}
		push := middle.push(0, 9, 4, len(keys))
		push.Keys, push.Values = middle.put(0, keys, 1)
		middle.send(push)
		if rep, ok := middle.wait(patience); ok {
			t.Errorf("a push over a connection that only reads was answered %v", rep.Code)
		}
		// Without a lease nothing is answered, and one that is not in the chain any more says so.
		n := w.nodes[2]
		n.servers[0].Lease(0, time.Time{})
		tail.ask(0, 0, keys)
		k.pull(0, 4, keys, false) // another member has one
		w.cut(n)
		if rep, ok := tail.wait(patience); ok {
			t.Errorf("a member that was cut out answered %v", rep.Code)
		}
		if _, err := w.reader(n, 0, 0); err == nil {
			t.Error("a reader was let in by one that is in no chain")
		} else if _, moved := psmsg.MovedIn(err); !moved {
			t.Errorf("a reader was told: %v", err)
		}
		readers[0].ask(4, 0, keys)
		want(readers[0], -8)
		for range maxReaders + 2 { // each takes the place of the one before
			r, err := w.reader(w.nodes[0], 0, 1)
			if err != nil {
				if !strings.Contains(err.Error(), "for reading already") {
					t.Fatal(err)
				}
				break
			}
			r.ask(4, 0, keys)
			want(r, -8)
		}
		w.alike()
	})
}

// A reader at a member that was cut out, and has its lease all the same, sees what is
// old: the auditor finds it, and finds nothing where the lease was taken away.
func TestAuditOfReadsWithoutALease(t *testing.T) {
	for _, careless := range []bool{false, true} {
		to := audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}
		w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, staleness: Async, tables: []table.Spec{sgdTable()},
			change: func(c *Config) { c.Audit = &to }}, 2, []int{0, 1})
		k := w.worker(0, 1)
		keys := w.keysOf(0, 10)
		r, err := w.reader(w.nodes[1], 0, 0)
		must(t, err)
		a, err := audit.NewWorker(audit.WorkerConfig{Config: to, Worker: 0, Client: 1})
		must(t, err)
		read := func(step uint64) bool {
			call := a.Ask(testTable, step, audit.Creates)
			r.ask(step, 0, keys)
			rep, ok := r.wait(patience)
			if ok {
				a.Seen(audit.Pull{Call: call, Table: testTable, Clock: step, Version: rep.Version, Flags: audit.Creates}, keys, slices.Clone(r.values(len(keys))), testDim)
			}
			return ok
		}
		push := func(step uint64) {
			grads := make([]float32, len(keys)*testDim)
			for i := range grads {
				grads[i] = 1
			}
			p := audit.Pushed{Table: testTable, Seq: step + 1, Clock: step, Flags: audit.Tick}
			a.Send(p, keys, grads, testDim)
			code := k.push(0, step, keys, 1, true)
			a.Done(p, uint8(code), step+1, 0)
		}
		for step := range uint64(3) {
			if !read(step) {
				t.Fatal("a member of the chain did not answer")
			}
			push(step)
		}
		// The others decide without it, and it does not hear of that.
		stays, goes := w.nodes[0], w.nodes[1]
		if !careless {
			goes.servers[0].Lease(0, time.Time{})
		}
		alone := chain.Config{Epoch: 2, Began: 1, Chain: w.groups[0].Chain[:1]}
		must(t, stays.servers[0].Adopt(alone))
		stays.servers[0].Lease(2, time.Now().Add(time.Hour))
		w.mu.Lock()
		w.epoch, w.groups[0] = 2, alone
		w.mu.Unlock()
		push(3)
		if careless {
			if !read(4) {
				t.Fatal("it has a lease and did not answer")
			}
		} else {
			r.ask(4, 0, keys)
			must(t, goes.servers[0].Adopt(alone)) // it hears of it
			if rep, ok := r.wait(patience); ok {
				t.Errorf("a member without a lease answered %v", rep.Code)
			}
		}
		must(t, a.Err())
		must(t, a.Close())
		for len(w.nodes) > 0 {
			w.kill(w.nodes[0])
		}
		rep, err := judge.Dir(t.Context(), to.Dir, judge.Options{})
		must(t, err)
		run := rep.Runs[0]
		found := slices.ContainsFunc(run.Violations, func(v *judge.Violation) bool { return v.Kind == judge.Forgotten })
		if run.Pulls == 0 || run.Pushes != 4 || run.Consistent == careless || found != careless {
			t.Errorf("careless %v: %+v", careless, *run)
		}
	}
}

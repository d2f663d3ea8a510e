package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"psrt/sched/psmsg"
)

const hangUp = psmsg.Code(255) // the server ends the connection

// TestLies: whatever a worker claims, it gets a refusal or is hung up on, and
// the server serves the others.
func TestLies(t *testing.T) {
	const n = 8
	cases := []struct {
		name string
		lie  func(w *raw)
		want psmsg.Code
		// where memory is mapped; the same if 0
		mapped psmsg.Code
	}{
		{"nothing", func(w *raw) { w.write(0, 0, nil) }, hangUp, 0},
		{"half a header", func(w *raw) { w.write(0, 0, make([]byte, 40)) }, hangUp, 0},
		{"zeros", func(w *raw) { w.write(0, 0, make([]byte, psmsg.RequestBytes)) }, hangUp, 0},
		{"slot that there is not", func(w *raw) { w.write(0, psmsg.Slots, make([]byte, psmsg.RequestBytes)) }, hangUp, 0},
		{"slot beyond counting", func(w *raw) { w.write(0, math.MaxUint32, make([]byte, psmsg.RequestBytes)) }, hangUp, 0},
		{"another slot's request", func(w *raw) {
			b := make([]byte, psmsg.RequestBytes)
			r := w.pull(1, 0, n)
			r.Encode(b)
			w.write(0, 0, b)
		}, hangUp, 0},
		{"slot in use", func(w *raw) { // by a pull that the clocks hold back
			w.send(w.pull(3, 9, n))
			w.send(w.pull(3, 9, n))
		}, hangUp, 0},
		{"kind", func(w *raw) { w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Kind = 77 })) }, hangUp, 0},
		{"flags", func(w *raw) { w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Flags = 0x4000 })) }, hangUp, 0},
		{"rows beyond the limit", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Rows = psmsg.MaxRows + 1 }))
		}, hangUp, 0},
		{"table", func(w *raw) { w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Table = 8 })) }, psmsg.CodeNoTable, 0},
		{"push to no table", func(w *raw) {
			w.send(changed(w.push(0, 1, 0, n), func(r *psmsg.Request) { r.Table = 8 }))
		}, psmsg.CodeNoTable, 0},
		{"values of another dimension", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Values.Len += 4 }))
		}, psmsg.CodeBadRequest, 0},
		{"crooked values", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Values.Addr++ }))
		}, psmsg.CodeBadRequest, 0},
		{"crooked keys", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Keys.Addr += 4 }))
		}, psmsg.CodeBadRequest, 0},
		{"keys that it does not have", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Keys.Addr += rawBytes }))
		}, hangUp, psmsg.CodeBadRequest},
		{"keys at the end of all addresses", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Keys.Addr = math.MaxUint64 - 7 }))
		}, hangUp, psmsg.CodeBadRequest},
		{"keys of nobody", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Keys.Key ^= 1 << 40 }))
		}, hangUp, psmsg.CodeBadRequest},
		{"more rows than it has memory", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) {
				r.Rows, r.Values.Len = 1<<20, 1<<20*testDim*4
			}))
		}, hangUp, psmsg.CodeBadRequest},
		{"values that it does not have", func(w *raw) {
			w.fill(1, n, 0)
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Values.Addr += rawBytes }))
			if w.conn.Transport == "tcp" { // the reply overtakes the refusal
				w.wait(patience)
			}
		}, hangUp, psmsg.CodeBadRequest},
		{"inline keys of a whole slot", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) {
				r.Flags |= psmsg.FlagInlineKeys
				r.Rows, r.Values.Len = 8192, 8192*testDim*4
			}), make([]byte, psmsg.SlotBytes-psmsg.RequestBytes)...)
		}, psmsg.CodeBadRequest, 0},
		{"inline gradients of more than a slot", func(w *raw) {
			w.send(changed(w.push(0, 1, 0, n), func(r *psmsg.Request) {
				r.Flags |= psmsg.FlagInlineGrads
				r.Rows, r.Values.Len = 4096, 4096*testDim*4
			}))
		}, psmsg.CodeBadRequest, 0},
		{"pull by ticket", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Flags |= psmsg.FlagTicket; r.Ticket = 1 << 32 }))
		}, psmsg.CodeBadRequest, 0},
		{"ticket", func(w *raw) {
			w.send(changed(w.push(0, 1, 0, n), func(r *psmsg.Request) { r.Flags |= psmsg.FlagTicket; r.Ticket = 12345 }))
		}, psmsg.CodeStaleTicket, 0},
		{"ticket of other rows", func(w *raw) {
			w.fill(1, n, 1)
			w.send(w.pull(0, 0, n))
			rep, _ := w.wait(patience)
			w.send(changed(w.push(0, 1, 0, n+1), func(r *psmsg.Request) { r.Flags |= psmsg.FlagTicket; r.Ticket = rep.Ticket }))
		}, psmsg.CodeStaleTicket, 0},
		{"packed pull", func(w *raw) {
			w.send(changed(w.pull(0, 0, n), func(r *psmsg.Request) { r.Flags |= psmsg.FlagPacked }))
		}, psmsg.CodeBadRequest, 0},
		{"packed push that is none", func(w *raw) {
			w.fill(1, n, 7)
			w.send(changed(w.push(0, 1, 0, n), func(r *psmsg.Request) { r.Flags |= psmsg.FlagPacked }))
		}, psmsg.CodeBadRequest, 0},
		{"packed push of more than there can be", func(w *raw) {
			w.send(changed(w.push(0, 1, 0, n), func(r *psmsg.Request) { r.Flags |= psmsg.FlagPacked; r.Values.Len = 1 << 40 }))
		}, psmsg.CodeBadRequest, 0},
		{"packed dense push that is none", func(w *raw) {
			w.send(psmsg.Request{Kind: psmsg.KindPushDense, Flags: psmsg.FlagPacked, Seq: 1, Rows: 1, Values: w.at(rawValues, testDense*4&^7)})
		}, psmsg.CodeBadRequest, 0},
		{"sequence from the past", func(w *raw) { w.send(w.push(0, 0, 0, n)) }, psmsg.CodeDuplicate, 0},
		{"clock from the future", func(w *raw) { w.send(w.push(0, 1, 1000, n)) }, psmsg.CodeClock, 0},
		{"clock at the end of time", func(w *raw) { w.send(w.push(0, 1, math.MaxUint64, n)) }, psmsg.CodeClock, 0},
		{"dense vector of another length", func(w *raw) {
			w.send(psmsg.Request{Kind: psmsg.KindPullDense, Values: w.at(rawValues, testDense*4-4)})
		}, psmsg.CodeBadRequest, 0},
		{"crooked dense vector", func(w *raw) {
			w.send(psmsg.Request{Kind: psmsg.KindPushDense, Seq: 1, Rows: 1, Values: w.at(rawValues+2, testDense*4)})
		}, psmsg.CodeBadRequest, 0},
		{"dense vector that it does not have", func(w *raw) {
			r := psmsg.Request{Kind: psmsg.KindPushDense, Seq: 1, Rows: 1, Values: w.at(rawValues, testDense*4)}
			r.Values.Addr += rawBytes
			w.send(r)
		}, hangUp, psmsg.CodeBadRequest},
	}
	each(t, func(t *testing.T, tr string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				x := newTarget(t, tr, 2, Async)
				liar, honest := x.worker(0), x.worker(1)
				// What waits for a clock needs one that moves.
				if c.name == "slot in use" {
					x = newTarget(t, tr, 2, 0)
					liar, honest = x.worker(0), x.worker(1)
				}
				c.lie(liar)
				want := c.want
				if c.mapped != 0 && tr == "shm" {
					want = c.mapped
				}
				rep, ok := liar.wait(patience)
				switch {
				case ok && rep.Code != want:
					t.Errorf("answered %v, want %v", rep.Code, want)
				case !ok && want != hangUp:
					t.Errorf("hung up, want %v", want)
				}
				honest.fill(100, 3, 0)
				honest.send(honest.pull(0, 0, 3))
				if rep, ok := honest.wait(patience); !ok || rep.Code != psmsg.CodeOK || rep.Rows != 3 {
					t.Errorf("the honest worker got %+v, %v", rep, ok)
				}
			})
		}
	})
}

func changed(r psmsg.Request, f func(*psmsg.Request)) psmsg.Request {
	f(&r)
	return r
}

// TestSequenceGap: pushes wait for the one that is missing, and none of them
// counts before or twice.
func TestSequenceGap(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		x := newTarget(t, tr, 1, Async)
		w := x.worker(0)
		w.fill(1, 1, 1)
		for slot, seq := range []uint64{3, 2, 3, math.MaxUint64} {
			r := w.push(uint32(slot), seq, 0, 1)
			r.Flags = 0
			w.send(r)
		}
		time.Sleep(50 * time.Millisecond)
		if st, err := x.Stats(); err != nil || st.Pushes != 0 {
			t.Fatalf("%d pushes were taken before the first in sequence (%v)", st.Pushes, err)
		}
		r := w.push(7, 1, 0, 1)
		r.Flags = 0
		w.send(r)
		for range 4 {
			if rep, ok := w.wait(patience); !ok || rep.Code != psmsg.CodeOK && rep.Code != psmsg.CodeDuplicate {
				t.Fatalf("%+v, %v", rep, ok)
			}
		}
		st, err := x.Stats()
		must(t, err)
		if st.Pushes != 3 || st.Duplicates != 1 {
			t.Errorf("%d pushes and %d duplicates, want 3 and 1", st.Pushes, st.Duplicates)
		}
		w.send(w.pull(0, 0, 1))
		w.wait(patience)
		if v := w.values(1)[0]; v != -3 {
			t.Errorf("the row is %v after 3 pushes of 1", v)
		}
	})
}

// TestSilentWorker: one that is let in and never opens its sessions is hung up
// on.
func TestSilentWorker(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		x := newTargetWithin(t, tr, 1, Async, time.Second)
		w, err := x.knock(0, 1)
		must(t, err)
		select {
		case <-w.conn.Done():
		case <-time.After(time.Minute):
			t.Fatal("a connection that says nothing is kept")
		}
		for end := time.Now().Add(time.Minute); ; { // the place is free again, for who is quicker
			if w, err = x.knock(0, 1); err == nil {
				err = w.open()
			}
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	})
}

// TestOneNumberTwice: the second process with a worker's number is told so,
// and the first is not disturbed; once that has gone, another may come, and
// what it pushes counts from its own beginning.
func TestOneNumberTwice(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		x := newTarget(t, tr, 1, Async)
		first := x.worker(0)
		if _, err := x.knock(0, 99); err == nil || !strings.Contains(err.Error(), "another process is connected as worker 0") {
			t.Errorf("the second worker 0: %v", err)
		}
		first.fill(1, 1, 1)
		first.send(first.push(0, 1, 0, 1))
		if rep, ok := first.wait(patience); !ok || rep.Code != psmsg.CodeOK {
			t.Errorf("the first worker 0 got %+v, %v", rep, ok)
		}
		first.conn.Close()
		var next *raw
		for end := time.Now().Add(time.Minute); next == nil; time.Sleep(5 * time.Millisecond) {
			if w, err := x.knock(0, 99); err == nil {
				next = w
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		must(t, next.open())
		next.fill(1, 1, 1)
		next.send(next.push(0, 1, 1, 1))
		if rep, ok := next.wait(patience); !ok || rep.Code != psmsg.CodeOK {
			t.Errorf("the successor's first push: %+v, %v", rep, ok)
		}
	})
}

// TestReconnectStorm: a worker that comes again and again without ending what
// it had takes no room from the others, and is served in the end.
func TestReconnectStorm(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		x := newTargetWithin(t, tr, 2, Async, 10*time.Second)
		honest := x.worker(1)
		var w *raw
		for i := range 30 {
			next, err := x.knock(0, 1)
			if err != nil {
				if !strings.Contains(err.Error(), "being set up already") && !strings.Contains(err.Error(), "room") && !strings.Contains(err.Error(), "left") {
					t.Fatalf("attempt %d: %v", i, err)
				}
				continue
			}
			w = next
			if i%3 != 0 {
				must(t, w.open())
			}
		}
		honest.fill(1, 3, 0)
		honest.send(honest.pull(0, 0, 3))
		if rep, ok := honest.wait(patience); !ok || rep.Code != psmsg.CodeOK {
			t.Errorf("the other worker got %+v, %v", rep, ok)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			last, err := x.knock(0, 1)
			if err == nil {
				err = last.open()
			}
			if err == nil {
				last.fill(1, 3, 0)
				last.send(last.pull(0, 0, 3))
				if rep, ok := last.wait(patience); !ok || rep.Code != psmsg.CodeOK {
					t.Errorf("the worker that came again got %+v, %v", rep, ok)
				}
				return
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	})
}

// TestDeadHolder: in BSP a push that was accepted counts although its worker
// died before the step was whole, and its memory with it.
func TestDeadHolder(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		x := newTarget(t, tr, 2, 0)
		dies, stays := x.worker(0), x.worker(1)
		dies.fill(1, 2, 5)
		dies.send(dies.push(0, 1, 0, 2))
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if st, err := x.Stats(); err == nil && st.Pushes == 1 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("the push never came: %+v, %v", st, err)
			}
		}
		dies.conn.Close()
		select {
		case n := <-x.lost:
			if n != 0 {
				t.Fatalf("worker %d is said to be lost", n)
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody is told that worker 0 is lost")
		}
		if n := <-x.hungUp; n != 0 { // half of that time before
			t.Errorf("worker %d is said to have hung up", n)
		}
		stays.fill(1, 2, 2)
		stays.send(stays.push(0, 1, 0, 2))
		if rep, ok := stays.wait(patience); !ok || rep.Code != psmsg.CodeOK {
			t.Fatalf("%+v, %v", rep, ok)
		}
		stays.send(changed(stays.pull(0, 0, 2), func(r *psmsg.Request) { r.Flags |= psmsg.FlagNoClock }))
		stays.wait(patience)
		for _, v := range stays.values(2) {
			if v != -7 {
				t.Fatalf("the rows are %v, want -7 everywhere", stays.values(2))
			}
		}
	})
}

// TestSlowWorker: in BSP a fast worker's next pull waits for the slow one, and
// fills no more than its own slots meanwhile.
func TestSlowWorker(t *testing.T) {
	each(t, func(t *testing.T, tr string) {
		x := newTarget(t, tr, 2, 0)
		fast, slow := x.worker(0), x.worker(1)
		fast.fill(1, 2, 1)
		slow.fill(1, 2, 1)
		fast.send(fast.push(0, 1, 0, 2))
		for slot := uint32(1); slot < psmsg.Slots; slot++ {
			fast.send(fast.pull(slot, 1, 2))
		}
		time.Sleep(100 * time.Millisecond)
		if st, err := x.Stats(); err != nil || st.Pulls != 0 {
			t.Fatalf("%d pulls were answered before the slow worker's step (%v)", st.Pulls, err)
		}
		slow.send(slow.push(0, 1, 0, 2))
		for range psmsg.Slots {
			if rep, ok := fast.wait(patience); !ok || rep.Code != psmsg.CodeOK {
				t.Fatalf("%+v, %v", rep, ok)
			}
		}
		if v := fast.values(1)[0]; v != -2 {
			t.Errorf("the pull at clock 1 read %v, want both pushes of clock 0: -2", v)
		}
	})
}

// TestLoadInStep: rows are not replaced under pushes that name them.
func TestLoadInStep(t *testing.T) {
	x := newTarget(t, "tcp", 2, 0)
	w := x.worker(0)
	w.fill(1, 2, 1)
	w.send(w.push(0, 1, 0, 2))
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if st, err := x.Stats(); err == nil && st.Pushes == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the push never came: %+v, %v", st, err)
		}
	}
	var err error
	must(t, x.lanes[0].do(patience, func() { err = x.lanes[0].betweenSteps() }))
	if err == nil || !strings.Contains(err.Error(), "1 pushes wait") {
		t.Errorf("loading while a push is held: %v", err)
	}
}

package kv

import (
	"context"
	"fmt"
	"math"
	"testing"

	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A push returns the number of rows that the servers left as they were: NaN and infinite,
// sparse and dense, by keys and by ticket, waited for and asynchronous, with replicas, and
// under bsp at the end of the step. CheckFinite makes them an error, after the other rows
// were applied.
func TestRefusedRows(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		for _, staleness := range []int{0, server.Async} {
			t.Run(fmt.Sprintf("replicas %d staleness %d", replicas, staleness), func(t *testing.T) {
				s := kvtest.Shape{Transport: "tcp", Servers: 2, Lanes: 2, Workers: 1, Staleness: staleness, Dense: 64}
				cfg := Config{Transport: "tcp", Tables: []table.Spec{counting("t", 2)}}
				if replicas > 1 {
					r := kvtest.NewReplicated(t, s, replicas, 5)
					cfg.Servers, cfg.Token = []string{r.Addr(0)}, r.Token
				} else {
					w := kvtest.New(t, s)
					cfg.Servers, cfg.Token = []string{w.Listen[0]}, w.Token
				}
				c, err := Open(context.Background(), cfg)
				must(t, err)
				t.Cleanup(c.Close)
				tab, err := c.Table("t")
				must(t, err)
				checkRefused(t, c, tab, staleness == 0)
			})
		}
	}
}

func checkRefused(t *testing.T, c *Client, tab *Table, bsp bool) {
	t.Helper()
	const n, bad = 100, 37
	keys, values := make([]uint64, n), make([]float32, 2*n)
	grads, dense := make([]float32, 2*n), make([]float32, 64)
	for i := range keys {
		keys[i] = uint64(i) * 31
		grads[2*i], grads[2*i+1] = 1, 1
		if i < bad {
			grads[2*i+i%2] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[i%3]
		}
	}
	dense[63] = float32(math.NaN())
	total, applied := uint64(0), float32(0)
	step := func(what string, want uint64, o Options, push func(Options) error) {
		t.Helper()
		got := uint64(99)
		o.Refused = &got
		err := push(o)
		if bsp {
			must(t, err)
			got, err = c.TickCounted(0)
		}
		if o.CheckFinite {
			wantCode(t, err, NotFinite, fmt.Sprint("gradients of ", want, " rows"))
		} else {
			must(t, err)
		}
		if got != want {
			t.Errorf("%s: %d rows refused, want %d", what, got, want)
		}
		total += want
	}
	push := func(o Options) error { applied++; return tab.Push(keys, grads, o) }
	wait := func(r *Request, err error) error {
		if err == nil {
			<-r.Done()
			err = r.Err()
		}
		return err
	}
	step("by keys", bad, Options{}, push)
	step("by keys, checked", bad, Options{CheckFinite: true}, push)
	step("asynchronous", bad, Options{}, func(o Options) error { applied++; return wait(tab.PushAsync(keys, grads, o, nil)) })
	step("asynchronous, checked", bad, Options{CheckFinite: true}, func(o Options) error { applied++; return wait(tab.PushAsync(keys, grads, o, nil)) })
	step("by ticket", bad, Options{}, func(o Options) error {
		number, err := tab.PullTicket(keys, values, o)
		must(t, err)
		applied++
		return tab.PushTicket(number, n, grads, o)
	})
	step("finite", 0, Options{}, func(o Options) error { return tab.Push(keys, make([]float32, 2*n), o) })
	step("dense", 1, Options{}, func(o Options) error { return c.PushDense(dense, o) })
	step("dense, checked, asynchronous", 1, Options{CheckFinite: true}, func(o Options) error { return wait(c.PushDenseAsync(dense, o, nil)) })
	must(t, tab.Pull(keys, values, Options{}))
	for i, v := range values {
		want := -applied
		if i/2 < bad {
			want = 0
		}
		if v != want {
			t.Fatalf("float %d of row %d is %v, want %v", i%2, i/2, v, want)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stats.RefusedRows != total {
		t.Errorf("the client has counted %d refused rows, want %d", c.stats.RefusedRows, total)
	}
}

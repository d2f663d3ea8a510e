package kv

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// Trainers go on while servers die, where every group has another replica: every push
// counts once, and what was pushed is there.
func TestReplicatedServersDie(t *testing.T) {
	for _, of := range []struct {
		staleness int
		read      string
	}{{0, ReadHead}, {server.Async, ""}, {0, ReadAny}, {server.Async, ReadAny}} {
		staleness := of.staleness
		t.Run(fmt.Sprint(staleness, of.read), func(t *testing.T) {
			const workers, steps, keys, floats = 2, 24, 40, 64
			r := kvtest.NewReplicated(t, kvtest.Shape{Transport: "tcp", Servers: 3, Lanes: 2, Workers: workers, Staleness: staleness, Dense: floats}, 2, 5)
			spec := counting("clicks", 2)
			addr := r.Addr(0)
			var clients []*Client
			for id := range workers {
				c, err := Open(context.Background(), Config{Servers: []string{addr}, Token: r.Token, Worker: id, Transport: "tcp", Tables: []table.Spec{spec}, Read: of.read,
					Timeout: Duration(2 * time.Minute), ConnectTimeout: Duration(2 * time.Minute)})
				must(t, err)
				t.Cleanup(c.Close)
				clients = append(clients, c)
			}
			if of.read == ReadAny {
				awaitReaders(t, clients)
			}
			ids := make([]uint64, keys)
			for i := range ids {
				ids[i] = uint64(i) * 7
			}
			var all sync.WaitGroup
			for id, c := range clients {
				all.Go(func() {
					tb, err := c.Table(spec.Name)
					must(t, err)
					seen := make([]float32, keys*2)
					values, grads, dense := make([]float32, keys*2), make([]float32, keys*2), make([]float32, floats)
					for step := range steps {
						must(t, tb.Pull(ids, values, Options{}))
						for i, v := range values { // gradients are not below zero: it never grows
							if v > seen[i] || v > -float32(step*(i%5+id)) {
								t.Errorf("worker %d, step %d: element %d is %v, it was %v", id, step, i, v, seen[i])
							}
						}
						copy(seen, values)
						if id == 0 && step == steps/3 {
							r.Kill(r.Head())
						}
						for i := range grads {
							grads[i] = float32(i%5 + id)
						}
						for i := range dense {
							dense[i] = 1
						}
						must(t, tb.Push(ids, grads, Options{}))
						must(t, c.PushDense(dense, Options{}))
						must(t, c.Tick(0))
					}
				})
			}
			all.Wait()
			c := clients[0]
			must(t, clients[1].c.Leave(context.Background()))
			tb, err := c.Table(spec.Name)
			must(t, err)
			values, dense := make([]float32, keys*2), make([]float32, floats)
			must(t, tb.Pull(ids, values, Options{}))
			for i, v := range values {
				if want := -float32(steps * (2*(i%5) + 1)); v != want {
					t.Fatalf("element %d: %v, want %v", i, v, want)
				}
			}
			must(t, c.PullDense(dense, Options{}))
			if dense[floats-1] != -workers*steps {
				t.Errorf("dense %v, want %v", dense[floats-1], -workers*steps)
			}
			c.mu.Lock()
			repairs := c.stats.Repairs
			c.mu.Unlock()
			if repairs == 0 {
				t.Error("no connection was made again: the test proved nothing")
			}
		})
	}
}

// awaitReaders waits until some group is read from another member than its head.
func awaitReaders(t *testing.T, clients []*Client) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		for _, c := range clients {
			b, err := c.StatsJSON(0)
			must(t, err)
			var r Report
			must(t, json.Unmarshal(b, &r))
			if r.Readers > 0 {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatal("no reader is connected")
		}
	}
}

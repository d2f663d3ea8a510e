package kv

import (
	"testing"
	"time"

	"psrt/rdma"
)

// A bug in one of the client's goroutines, or below a call, breaks the client and
// not the process; what waits ends, and closing works.
func TestBugBreaksTheClientOnly(t *testing.T) {
	for name, plant := range map[string]func(c *Client, o *op){
		"in a goroutine": func(c *Client, _ *op) { c.help(func() { panic("planted") }) },
		"in a call": func(c *Client, o *op) {
			defer func() { _ = recover() }()
			_ = c.do(&op{kind: opPush, wake: o.wake}) // without rows
		},
		"in a transport": func(c *Client, _ *op) {
			go rdma.Guarded(c.host.OnPanic(), func() { panic("planted") })()
		},
		"in the pump": func(c *Client, _ *op) {
			c.mu.Lock()
			c.queue = append(c.queue, &op{kind: opPush, finished: func(*op) {}, deadline: time.Now().Add(time.Minute)})
			c.async++
			c.pump.rouse()
			c.mu.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shape{transport: "shm", servers: 1, lanes: 1, workers: 2, staleness: 0})
			c, other := w.open(0, counting("t", 1)), w.open(1)
			tab := w.table(c, "t")
			w.table(other, "t")
			r, err := tab.PullAsync([]uint64{1}, make([]float32, 1), nil, Options{}, nil)
			must(t, err)
			<-r.Done()
			if err := c.Tick(time.Millisecond); CodeOf(err) != Timeout { // worker 1 has not ended its step
				t.Fatal(err)
			}
			waiting, err := tab.PullAsync([]uint64{1}, make([]float32, 1), nil, Options{}, nil)
			must(t, err)
			plant(c, newOp(opPush, time.Now()))
			<-waiting.Done()
			wantCode(t, waiting.Err(), Internal, "the client is broken")
			wantCode(t, tab.Pull([]uint64{1}, make([]float32, 1), Options{}), Internal, "close it")
			c.Close()
		})
	}
}

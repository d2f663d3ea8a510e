package kvtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"psrt/rdma/dial"
)

// hello4 is what version 4 of the protocol has in a hello.
type hello4 struct {
	Protocol int    `json:"protocol"`
	Worker   int    `json:"worker"`
	Client   uint64 `json:"client"`
	Any      bool   `json:"any,omitempty"`
}

// Older is where a server is met as one of protocol 4.
func (w *World) Older(i int) (addr string) {
	w.t.Helper()
	return Older(w.t, w.Host(), func(ctx context.Context, in *dial.Incoming) { w.servers[i].s.Handle(ctx, in) })
}

// Older is where a server is met as one of protocol 4: it looks for what that one
// knew, in its way, and knows of nothing else. handle is the server's.
func Older(t testing.TB, h *dial.Host, handle func(context.Context, *dial.Incoming)) (addr string) {
	t.Helper()
	l, err := h.Listen("127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept(ctx)
			if err != nil {
				return
			}
			all.Go(func() {
				var said hello4
				if err := json.Unmarshal(in.Hello, &said); err != nil || said.Protocol != 4 {
					_ = in.Reject(fmt.Errorf("server speaks protocol 4, the client %d: run the same psrt version everywhere", said.Protocol))
					return
				}
				in.Hello, _ = json.Marshal(said)
				handle(ctx, in)
			})
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); all.Wait() })
	return l.Addr()
}

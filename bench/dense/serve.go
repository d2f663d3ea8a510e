package dense

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"psrt/rdma/dial"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// setup is what the child is told, addresses what it answers: one server for
// each of Config.Workers.
type setup struct {
	Config Config
	Token  []byte
}

type addresses struct {
	Err     string
	Servers []string
}

// ticks is a table without rows: ending a step is a sparse push's business.
var ticks = table.Spec{Name: "ticks", ID: 1, Dim: 1, Init: table.Init{Kind: table.InitZero},
	Optimizer: table.Optimizer{Kind: table.SGD, LR: rate}}

// Serve is the child's body: it answers until in ends.
func Serve(in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var s setup
	if err := from.Decode(&s); err != nil {
		return fmt.Errorf("dense: no set-up on standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var a addresses
	h, err := dial.New(dial.Config{Transport: s.Config.Transport, Token: s.Token, Listen: "127.0.0.1:0"})
	if err == nil {
		defer h.Close()
		for _, n := range s.Config.Workers {
			var one *server.Server
			if one, err = newServer(&s.Config, h, n); err != nil {
				break
			}
			a.Servers = append(a.Servers, one.Addr())
			wg.Go(func() { _ = one.Serve(ctx) })
		}
	}
	if err != nil {
		a.Err = err.Error()
	}
	if err := to.Encode(a); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // the parent's end is the end
	return nil
}

func newServer(c *Config, h *dial.Host, workers int) (*server.Server, error) {
	m, err := oneServer("")
	if err != nil {
		return nil, err
	}
	shares, err := tree.Shares(workers, workers)
	if err != nil {
		return nil, err
	}
	merges, err := tree.Top(shares)
	if err != nil {
		return nil, err
	}
	floats := c.Bytes / 4
	return server.New(server.Config{ID: 0, Map: m, Host: h, Listen: "127.0.0.1:0", Workers: workers, Merges: merges,
		Seed: c.Seed, Tables: []table.Spec{ticks}, Node: -1,
		Dense: server.DenseConfig{Ranges: []densemap.Range{{Len: floats, Rule: "grad"}}, Optimizer: ticks.Optimizer, Init: make([]float32, floats)}})
}

// oneServer is the map of a single server of one lane.
func oneServer(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}

package fan

import (
	"context"
	"errors"
	"sync"

	"psrt/rdma/dial"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

// probed is the table of the small pulls: 4 rows of 16 floats are 256 bytes.
var probed = table.Spec{Name: "probed", Dim: 16, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}

const probedRows = 4

// serving is the server of one measurement.
type serving struct {
	host   *dial.Host
	server *server.Server
	cancel context.CancelFunc
	wg     sync.WaitGroup
	cpu    float64
}

func oneServer(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}

// serve starts it. The vector begins at zero; a push of ones under plain SGD of
// rate 1 takes one from each element.
func serve(o order) (_ *serving, addr string, err error) {
	s := &serving{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.host, err = dial.New(dial.Config{Transport: o.Config.Transport, Token: o.Token, Listen: o.Address}); err != nil {
		return nil, "", err
	}
	m, err := oneServer("")
	if err != nil {
		return nil, "", err
	}
	floats := o.Config.PushBytes / 4
	fanIn := server.FanInGranted
	if o.Mode == Blast {
		fanIn = server.FanInBlast
	}
	s.server, err = server.New(server.Config{ID: 0, Map: m, Host: s.host, Listen: o.Address, Workers: o.Workers + 1, Staleness: server.Async,
		Seed: 1, Tables: []table.Spec{probed}, Node: -1, FanIn: fanIn, Dense: server.DenseConfig{
			Ranges:    []densemap.Range{{Len: floats, Rule: "grad"}},
			Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}, Init: make([]float32, floats)}})
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(func() { _ = s.server.Serve(ctx) })
	_, s.cpu = usage.Process()
	return s, s.server.Addr(), nil
}

// stop ends the server; the answer has what it says of itself.
func (c *childSide) stop() (a answer, err error) {
	s := c.serving
	if s == nil {
		return a, errors.New("fan: no server runs")
	}
	c.serving = nil
	defer s.close()
	_, cpu := usage.Process()
	a.CPU = cpu - s.cpu
	st, err := s.server.Stats()
	a.FanIn = st.FanIn
	return a, err
}

func (s *serving) close() {
	if s.cancel != nil {
		s.cancel()
	}
	s.wg.Wait()
	if s.host != nil {
		_ = s.host.Close()
	}
}

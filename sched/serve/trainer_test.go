package serve

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

var testToken = []byte("a token of these tests alone")

// running is a server of this process.
type running struct {
	*Server
	cancel context.CancelFunc
	ended  chan error
}

func tables(t testing.TB, text string) *Tables {
	t.Helper()
	got, err := ParseTables("tables.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// start runs a server with the fields that matter for these tests filled in.
func start(t testing.TB, cfg Config) *running {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	cfg.Token, cfg.Node = testToken, -1
	if cfg.Lanes == 0 {
		cfg.Lanes = 2
	}
	if cfg.Clients == 0 {
		cfg.Clients = 8
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: s, cancel: cancel, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() { r.ended <- s.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatalf("the server ended: %v", err)
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return r
}

// stop ends the server; a second stop does nothing.
func (r *running) stop() error {
	r.cancel()
	err, ok := <-r.ended
	if ok {
		close(r.ended)
	}
	return err
}

// trainer is a client as libpsrt makes one, step by step.
type trainer struct {
	*client.Client
	t    testing.TB
	host *dial.Host
	step uint64
}

func describe(t testing.TB, h *dial.Host, addr string) (psmsg.DescribeReply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	hello, _ := json.Marshal(psmsg.Hello{Protocol: psmsg.Version, Worker: psmsg.Visitor})
	var job psmsg.DescribeReply
	conn, _, err := h.Dial(ctx, addr, hello, 0, func(int, rdma.Domain) (rdma.EndpointConfig, error) {
		return rdma.EndpointConfig{}, errors.New("a visitor has no endpoints")
	})
	if err != nil {
		return job, err
	}
	defer conn.Close()
	return job, conn.Call(ctx, psmsg.MethodDescribe, nil, &job)
}

func join(t testing.TB, addr, transport string) (*trainer, error) {
	t.Helper()
	h, err := dial.New(dial.Config{Transport: transport, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	job, err := describe(t, h, addr)
	if err != nil {
		return nil, err
	}
	if !job.Open || job.Map.Servers[0].Addr != addr {
		t.Errorf("the server describes itself as %+v", job)
	}
	c, err := client.Open(context.Background(), client.Config{Any: true, Map: job.Map, Host: h, Timeout: 2 * time.Minute, Node: -1})
	if err != nil {
		return nil, err
	}
	t.Cleanup(c.Close)
	tr := &trainer{Client: c, t: t, host: h}
	tr.enter()
	return tr, nil
}

func (r *running) join(t testing.TB) *trainer {
	t.Helper()
	tr, err := join(t, r.Addr(), "")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *trainer) call(method string, req, resp any) {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := tr.CallServer(ctx, 0, method, req, resp); err != nil {
		tr.t.Error(err) // not Fatal: trainers have goroutines of their own
	}
}

func (tr *trainer) enter() {
	tr.t.Helper()
	var rep psmsg.EnterReply
	tr.call(psmsg.MethodEnter, psmsg.EnterRequest{}, &rep)
	tr.call(psmsg.MethodEnter, psmsg.EnterRequest{Step: &rep.Step}, &rep)
	tr.step = rep.Step
}

func (tr *trainer) leave() {
	tr.t.Helper()
	tr.call(psmsg.MethodLeave, struct{}{}, nil)
	tr.Close()
}

func (tr *trainer) table(name string, spec *table.Spec) psmsg.TableReply {
	tr.t.Helper()
	var rep psmsg.TableReply
	tr.call(psmsg.MethodTable, psmsg.TableRequest{Name: name, Spec: spec}, &rep)
	return rep
}

// rows makes a working set of a table that there is, for keys.
func (tr *trainer) rows(name string, keys ...uint64) (*client.Rows, []int32) {
	tr.t.Helper()
	rep := tr.table(name, nil)
	if rep.Refused != "" {
		tr.t.Fatal(rep.Refused)
	}
	r, err := tr.NewRows(rep.Spec)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(r.Close)
	index := [][]int32{make([]int32, len(keys))}
	if err := r.Plan([][]uint64{keys}, index); err != nil {
		tr.t.Fatal(err)
	}
	return r, index[0]
}

// push gives every element of row i the gradient grads[i].
func (tr *trainer) push(name string, tick bool, keys []uint64, grads ...float32) {
	tr.t.Helper()
	r, index := tr.rows(name, keys...)
	for i, g := range grads {
		dim := len(r.Grads()) / r.Len()
		for j := range dim {
			r.Grads()[int(index[i])*dim+j] = g
		}
	}
	var call client.Call
	tr.do(tr.Push(r, tr.step, tick, &call), &call)
	if tick {
		tr.step++
	}
}

// pull gives the first element of every row.
func (tr *trainer) pull(name string, keys ...uint64) []float32 {
	tr.t.Helper()
	r, index := tr.rows(name, keys...)
	var call client.Call
	tr.do(tr.Pull(r, tr.step, 0, &call), &call)
	out := make([]float32, len(keys))
	for i := range keys {
		out[i] = r.Values()[int(index[i])*len(r.Values())/r.Len()]
	}
	return out
}

func (tr *trainer) do(err error, call *client.Call) {
	tr.t.Helper()
	if err == nil {
		err = tr.Wait(call)
	}
	if err != nil {
		tr.t.Error(err)
	}
}

func (r *running) digest(t testing.TB) string {
	t.Helper()
	d, err := r.server.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func says(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one that says %q", err, want)
	}
}

const asp = server.Async

package sparse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"psrt/bench/rival"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// setup is what the child is told, addresses what it answers, in the order of
// Config.Dims where there are several.
type setup struct {
	Config Config
	Token  []byte
}

type addresses struct {
	Err      string
	Server   string
	Messages string   // of rivals over the transport
	Sockets  []string // of rivals over a TCP socket
}

// patience bounds what one message of a rival may take.
const patience = 20 * time.Second

// Serve is the child's body: it answers until in ends.
func Serve(in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var s setup
	if err := from.Decode(&s); err != nil {
		return fmt.Errorf("sparse: no set-up on standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &serving{cfg: &s.Config, token: s.Token}
	a, err := c.start(ctx)
	defer c.wg.Wait()
	defer cancel()
	defer c.close()
	if err != nil {
		a.Err = err.Error()
	}
	if err := to.Encode(a); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // the parent's end is the end
	return nil
}

// serving is the child's part of a run.
type serving struct {
	cfg    *Config
	token  []byte
	closes []func() error
	wg     sync.WaitGroup
}

func (c *serving) close() {
	for i := len(c.closes) - 1; i >= 0; i-- {
		_ = c.closes[i]()
	}
}

func (c *serving) host() (*dial.Host, error) {
	h, err := dial.New(dial.Config{Transport: c.cfg.Transport, Token: c.token, Listen: "127.0.0.1:0"})
	if err == nil {
		c.closes = append(c.closes, h.Close)
	}
	return h, err
}

func (c *serving) start(ctx context.Context) (a addresses, err error) {
	h, err := c.host()
	if err != nil {
		return a, err
	}
	m, err := oneServer("")
	if err != nil {
		return a, err
	}
	var tables []table.Spec
	for i := range c.cfg.Dims {
		tables = append(tables, spec(c.cfg, i, false))
		if c.cfg.Op == "push" {
			tables = append(tables, spec(c.cfg, i, true))
		}
	}
	s, err := server.New(server.Config{ID: 0, Map: m, Host: h, Listen: "127.0.0.1:0", Workers: 1, Staleness: server.Async, Seed: c.cfg.Seed, Tables: tables, Node: -1})
	if err != nil {
		return a, err
	}
	a.Server = s.Addr()
	c.wg.Go(func() { _ = s.Serve(ctx) })
	return a, c.rivals(ctx, &a)
}

// oneServer is the map of a single server of one lane.
func oneServer(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}

// rivals listens for them, one table per row length and kind of stream.
func (c *serving) rivals(ctx context.Context, a *addresses) error {
	var overMessages []*rival.Table
	for _, d := range c.cfg.Dims {
		overMessages = append(overMessages, rival.NewTable(d, rate, c.cfg.Rows))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c.closes = append(c.closes, l.Close)
		a.Sockets = append(a.Sockets, l.Addr().String())
		t := rival.NewTable(d, rate, c.cfg.Rows)
		c.wg.Go(func() {
			if conn, err := l.Accept(); err == nil {
				stop := context.AfterFunc(ctx, func() { conn.Close() })
				defer stop()
				_ = t.Serve(conn) // the parent sees its end of it
			}
		})
	}
	h, err := c.host()
	if err != nil {
		return err
	}
	l, err := h.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	a.Messages = l.Addr()
	c.wg.Go(func() {
		for range overMessages {
			in, err := l.Accept(ctx)
			if err != nil {
				return
			}
			i, err := strconv.Atoi(string(in.Hello))
			if err != nil || i < 0 || i >= len(overMessages) {
				_ = in.Reject(errors.New("sparse: no such table"))
				continue
			}
			end := &messages{}
			conn, err := in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
				cfg, err := end.attach(d)
				end.err = errors.Join(end.err, err)
				return cfg
			}, nil)
			if err = errors.Join(end.err, err); err != nil {
				continue // the parent is told by its own end
			}
			c.wg.Go(func() {
				defer end.close()
				stream, err := end.stream(conn)
				if err == nil {
					_ = overMessages[i].Serve(stream)
				}
			})
		}
	})
	return nil
}

// messages is one end of a rival's stream over the transport.
type messages struct {
	arena  *mem.Arena
	region rdma.Region
	queue  rdma.Queue
	err    error
}

func (m *messages) attach(d rdma.Domain) (cfg rdma.EndpointConfig, err error) {
	if m.arena, err = mem.New(mem.Config{Size: rival.StreamBytes, Node: -1, Purpose: "rival's messages", Share: true}); err != nil {
		return cfg, err
	}
	if m.region, err = d.Register(m.arena, rdma.AccessAll, "rival's messages"); err != nil {
		return cfg, err
	}
	if m.queue, err = d.NewQueue(2 * rival.Messages); err != nil {
		return cfg, err
	}
	return rdma.EndpointConfig{Queue: m.queue, SendDepth: rival.Messages, RecvDepth: rival.Messages, Peer: "rival"}, nil
}

func (m *messages) stream(conn *dial.Conn) (*rival.Stream, error) {
	return rival.NewStream(conn.Endpoints[0], m.queue, m.region.Bytes(), patience)
}

func (m *messages) close() error {
	return errors.Join(m.region.Close(), m.arena.Close())
}

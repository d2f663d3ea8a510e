package sparse

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"psrt/bench/across"
	"psrt/bench/rival"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// addresses is what the child answers, in the order of Config.Dims where there
// are several.
type addresses struct {
	Server   string
	Messages string   // of rivals over the transport
	Sockets  []string // of rivals over a TCP socket
}

// patience bounds what one message of a rival may take.
const patience = 20 * time.Second

// Serve is the child's body: it answers until in ends.
func Serve(in io.Reader, out io.Writer) error {
	var c Config
	return across.Serve(in, out, &c, func(s *across.Serving) (any, error) { return start(s, &c) })
}

func start(s *across.Serving, c *Config) (a addresses, err error) {
	h, err := s.Host()
	if err != nil {
		return a, err
	}
	var tables []table.Spec
	for i := range c.Dims {
		tables = append(tables, spec(c, i, false))
		if c.Op == "push" {
			tables = append(tables, spec(c, i, true))
		}
	}
	a.Server, err = s.Server(h, server.Config{Workers: 1, Staleness: server.Async, Seed: c.Seed, Tables: tables})
	if err != nil {
		return a, err
	}
	return a, rivals(s, c, &a)
}

// rivals listens for them, one table per row length and kind of stream.
func rivals(s *across.Serving, c *Config, a *addresses) error {
	var overMessages []*rival.Table
	for _, d := range c.Dims {
		overMessages = append(overMessages, rival.NewTable(d, rate, c.Rows))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.AtEnd(l.Close)
		a.Sockets = append(a.Sockets, l.Addr().String())
		t := rival.NewTable(d, rate, c.Rows)
		s.Go(func() {
			if conn, err := l.Accept(); err == nil {
				stop := context.AfterFunc(s, func() { conn.Close() })
				defer stop()
				_ = t.Serve(conn) // the parent sees its end of it
			}
		})
	}
	h, err := s.Host()
	if err != nil {
		return err
	}
	l, err := h.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	a.Messages = l.Addr()
	s.Go(func() {
		for range overMessages {
			in, err := l.Accept(s)
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
			s.Go(func() {
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

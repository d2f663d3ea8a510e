package fan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// The link itself where it carries RDMA: the server's process reads from the
// station's memory through one endpoint of the same transport, with a few reads
// on their way, and nobody looks at what came.
const (
	readBytes  = 256 << 10
	readWindow = 8
)

// readEnd is one end of it.
type readEnd struct {
	arena  *mem.Arena
	region rdma.Region
	queue  rdma.Queue
	conn   *dial.Conn
}

func (e *readEnd) attach(d rdma.Domain) (cfg rdma.EndpointConfig, err error) {
	if e.arena, err = mem.New(mem.Config{Size: readWindow * readBytes, Node: -1, Purpose: "bare reads", Share: true}); err != nil {
		return cfg, err
	}
	if e.region, err = d.Register(e.arena, rdma.AccessAll, "bare reads"); err != nil {
		return cfg, err
	}
	if e.queue, err = d.NewQueue(2 * readWindow); err != nil {
		return cfg, err
	}
	return rdma.EndpointConfig{Queue: e.queue, SendDepth: readWindow, RecvDepth: readWindow, Peer: "the other end of bare reads"}, nil
}

// lend is the station's end.
func (e *readEnd) lend(ctx context.Context, h *dial.Host, addr string) (err error) {
	e.conn, _, err = h.Dial(ctx, addr, nil, 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return e.attach(d) })
	return err
}

// accept is the server's end; it waits for the station's.
func (e *readEnd) accept(ctx context.Context, l *dial.Listener) error {
	in, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	var failed error
	e.conn, err = in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
		cfg, err := e.attach(d)
		failed = errors.Join(failed, err)
		return cfg
	}, nil)
	return errors.Join(failed, err)
}

// close ends the connection, then frees what it used.
func (e *readEnd) close() error {
	var errs []error
	if e.conn != nil {
		errs = append(errs, e.conn.Close())
	}
	if e.region != nil {
		errs = append(errs, e.region.Close())
	}
	if e.queue != nil {
		errs = append(errs, e.queue.Close())
	}
	if e.arena != nil {
		errs = append(errs, e.arena.Close())
	}
	return errors.Join(errs...)
}

// read keeps the window full for so long after the first window has landed and
// returns the rate in bytes/s.
func (e *readEnd) read(from rdma.RemoteRange, d time.Duration) (float64, error) {
	ep, local := e.conn.Endpoints[0], e.region.Bytes()
	post := func(slot uint64) error {
		at := slot * readBytes
		n, err := ep.Post([]rdma.WR{{ID: slot, Op: rdma.OpRead, Signaled: true, Local: local[at : at+readBytes], Remote: from.Slice(at, readBytes)}})
		if err == nil && n == 0 {
			err = errors.New("fan-in: the link itself: an endpoint has no room for the reads that it was made for")
		}
		return err
	}
	for slot := range uint64(readWindow) {
		if err := post(slot); err != nil {
			return 0, err
		}
	}
	var begin, last time.Time
	landed := 0
	cs := make([]rdma.Completion, readWindow)
	for inFlight := readWindow; inFlight > 0; {
		n := e.queue.Poll(cs)
		now := time.Now()
		for _, c := range cs[:n] {
			if c.Status != rdma.StatusOK {
				return 0, fmt.Errorf("fan-in: the link itself: %w", c.Err)
			}
			inFlight--
			landed++
			last = now
			if landed == readWindow {
				begin = now
			}
			if begin.IsZero() || now.Sub(begin) < d {
				if err := post(c.ID); err != nil {
					return 0, err
				}
				inFlight++
			}
		}
		if n == 0 {
			if err := e.queue.Wait(now.Add(patience)); err != nil {
				return 0, fmt.Errorf("fan-in: the link itself: no read came back: %w", err)
			}
		}
	}
	return float64(landed-readWindow) * readBytes / last.Sub(begin).Seconds(), nil
}

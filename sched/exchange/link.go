package exchange

import (
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// depth is the requests of an endpoint under way.
const depth = 64

// link is one end of a connection, with registered memory: where rows land, or where
// they are packed.
type link struct {
	conn   *dial.Conn
	mux    *dial.Mux
	arena  *mem.Arena
	region rdma.Region
}

func (l *link) attach(name string, timeout time.Duration) func(int, rdma.Domain) (rdma.EndpointConfig, error) {
	return func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) {
		q, err := l.mux.Queue(d)
		return rdma.EndpointConfig{Queue: q, SendDepth: depth, RecvDepth: 1, Peer: name, OpTimeout: timeout}, err
	}
}

// hold makes sure that there are so many bytes of registered memory.
func (l *link) hold(bytes, node int, access rdma.Access, purpose string) error {
	if l.arena != nil && len(l.arena.Bytes()) >= bytes {
		return nil
	}
	if bytes > maxRow {
		return fmt.Errorf("exchange: a row of %d bytes; at most %d travel: use --dataset memory without --global-shuffle", bytes, maxRow)
	}
	if err := l.drop(); err != nil {
		return err
	}
	arena, err := mem.New(mem.Config{Size: max(bytes, landingBytes), Node: node, Purpose: purpose, Share: true})
	if err != nil {
		return err
	}
	region, err := l.conn.Domains[0].Register(arena, access, purpose)
	if err != nil {
		return errors.Join(err, arena.Close())
	}
	l.arena, l.region = arena, region
	return nil
}

func (l *link) drop() (err error) {
	if l.arena != nil {
		err = errors.Join(l.region.Close(), l.arena.Close())
		l.arena, l.region = nil, nil
	}
	return err
}

// close ends the connection, then gives the memory back.
func (l *link) close() (err error) {
	if l.conn != nil {
		err = l.conn.Close()
	}
	if l.region != nil {
		err = errors.Join(err, l.drop())
	}
	if l.mux != nil {
		err = errors.Join(err, l.mux.Close())
	}
	*l = link{}
	return err
}

// write puts the first n bytes of the memory where a peer wants them, and waits until
// they are there.
func (l *link) write(n int, to rdma.RemoteRange, timeout time.Duration) error {
	most := l.conn.Domains[0].Caps().MaxMessage
	b, deadline := l.arena.Bytes()[:n], time.Now().Add(timeout)
	under, at := 0, 0
	var cs [16]rdma.Completion
	for at < n || under > 0 {
		if at < n {
			end := min(at+most, n)
			took, err := l.conn.Endpoints[0].Post([]rdma.WR{{Op: rdma.OpWrite, Signaled: true, Local: b[at:end], Remote: to.Slice(uint64(at), uint64(end-at))}})
			if err != nil {
				return err
			}
			if took == 1 {
				at, under = end, under+1
				continue
			}
		}
		for _, c := range cs[:l.mux.Poll(cs[:])] {
			under--
			if c.Status != rdma.StatusOK {
				return c.Err
			}
		}
		if l.conn.Err() != nil {
			return l.conn.Err()
		}
		if under == 0 {
			continue
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("exchange: %d bytes of rows to %s took more than %v", n, l.conn.Peer, timeout)
		}
		if err := l.mux.Wait(time.Now().Add(look)); err != nil && !errors.Is(err, rdma.ErrDeadline) {
			return err
		}
	}
	return nil
}

// look is between two looks at whether the connection still is.
const look = 100 * time.Millisecond

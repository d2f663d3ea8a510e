package whole

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"psrt/sched/train"
)

// The ceiling of what a link allows on these cores: a training whose rows are on this host,
// beside which, step for step, as many bytes cross the link each way over plain sockets,
// and are dropped. A trainer that needs these bytes does no less.

const trafficPiece = 256 << 10

// exchange is a connection on which one end asks for a step's values with one byte, or
// sends a step's gradients and gets one byte for them.
type exchange struct {
	sends, gets int64 // of this end, a step
	out, in     []byte
}

func newExchange(sends, gets int64) *exchange {
	return &exchange{sends, gets, make([]byte, trafficPiece), make([]byte, trafficPiece)}
}

// back is the same, seen from the other end.
func (e *exchange) back() *exchange { return newExchange(e.gets, e.sends) }

func (e *exchange) send(w io.Writer) error {
	for left := e.sends; left > 0; {
		n, err := w.Write(e.out[:min(left, trafficPiece)])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

func (e *exchange) get(r io.Reader) error {
	for left := e.gets; left > 0; {
		n, err := r.Read(e.in[:min(left, trafficPiece)])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// exchanges are a step's, of so many bytes each way, seen from the station.
func exchanges(bytes int64) []*exchange {
	return []*exchange{newExchange(1, bytes), newExchange(bytes, 1)}
}

// traffic answers one station's exchanges until it closes them.
func (s *serving) traffic(ctx context.Context, bytes int64) (string, error) {
	l, err := s.listen(ctx)
	if err != nil {
		return "", err
	}
	s.running.Go(func() {
		defer l.Close()
		for _, e := range exchanges(bytes) {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() {
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				defer conn.Close()
				for here := e.back(); here.get(conn) == nil && here.send(conn) == nil; {
				}
			})
		}
	})
	return l.Addr().String(), nil
}

// beside is the trainer with its server beside it, and the link's bytes alone.
func (st *station) beside(ctx context.Context) (out outcome, err error) {
	says, err := st.ask(serverOrder{Traffic: st.stepBytes})
	if err != nil {
		return out, err
	}
	moving, stop := context.WithCancel(ctx)
	defer stop()
	all := exchanges(st.stepBytes)
	errs := make(chan error, len(all))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop() // before the wait
	for _, e := range all {
		conn, err := net.DialTimeout("tcp", says.Addr, patience)
		if err != nil {
			return out, err
		}
		running.Go(func() {
			defer context.AfterFunc(moving, func() { conn.Close() })()
			defer conn.Close()
			if err := st.exchange(moving, e, conn); err != nil && moving.Err() == nil {
				errs <- fmt.Errorf("the link's bytes alone: %w", err)
				stop()
			}
		})
	}
	if out, err = st.local(ctx, train.ASP); err != nil {
		return out, err
	}
	select {
	case err := <-errs:
		return out, err
	default:
		return out, nil
	}
}

// exchange moves a step's bytes each time that a step takes with local rows.
func (st *station) exchange(ctx context.Context, e *exchange, conn net.Conn) error {
	tick := time.NewTicker(st.stepTime)
	defer tick.Stop()
	for {
		if err := e.send(conn); err != nil {
			return err
		}
		if err := e.get(conn); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

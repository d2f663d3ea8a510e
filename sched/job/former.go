package job

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/coord"
	"psrt/sched/psmsg"
	"psrt/sched/replica"
)

const (
	// formerWithin bounds how long a server waits for whoever keeps its like to clear away
	// what a former life of theirs has left.
	formerWithin = time.Minute
	// knockWithin bounds one try to reach a server that may live.
	knockWithin = 5 * time.Second
)

// awaitCleared waits while the keys in c are those of servers that were killed: by them a
// server that comes before their keeper would be judged, and end. lives says whether the
// server at an address answers: a registration outlives its server by seconds. Where
// nobody comes to clear them, it goes on with what is there.
func awaitCleared(ctx context.Context, c coord.Coordinator, lives func(ctx context.Context, addr string) bool, note func(string)) error {
	for last := time.Now().Add(formerWithin); ; {
		former, err := leftBehind(ctx, c, lives)
		if err != nil || !former || !time.Now().Before(last) {
			return err
		}
		if note != nil {
			note("this etcd has what servers with this token, which live no more, have left: waiting for rank 0 to clear it")
			note = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(vacantLook):
		}
	}
}

// leftBehind says whether the keys in c are of servers of which none lives.
func leftBehind(ctx context.Context, c coord.Coordinator, lives func(ctx context.Context, addr string) bool) (bool, error) {
	if done, err := over(ctx, c); done || err != nil {
		return done, err
	}
	if _, err := c.Get(ctx, replica.KeyMap); err != nil {
		return false, ignore(err, coord.ErrNotFound)
	}
	running, err := serving(ctx, c)
	if err != nil {
		return false, err
	}
	listed, err := registered(ctx, c)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(listed, func(r replica.Registration) bool {
		return slices.Contains(running, r.ID) && lives(ctx, r.Addr)
	}), nil
}

// knocker asks servers that may be there for a word.
func knocker(token []byte) (lives func(ctx context.Context, addr string) bool, end func(), err error) {
	h, err := dial.New(dial.Config{Token: token})
	if err != nil {
		return nil, nil, err
	}
	hello, err := json.Marshal(psmsg.Hello{Worker: psmsg.Visitor}.Says())
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	lives = func(ctx context.Context, addr string) bool {
		ctx, cancel := context.WithTimeout(ctx, knockWithin)
		defer cancel()
		conn, _, err := h.Dial(ctx, addr, hello, 0, func(int, rdma.Domain) (rdma.EndpointConfig, error) { return rdma.EndpointConfig{}, nil })
		if err != nil {
			return errors.Is(err, dial.ErrRefused) || errors.Is(err, dial.ErrNoTransport)
		}
		_ = conn.Close()
		return true
	}
	return lives, func() { _ = h.Close() }, nil
}

package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma"
)

// poll takes what has completed.
func (g *Group) poll() {
	n := g.mux.Poll(g.completions[:])
	for i := range g.completions[:n] {
		c := &g.completions[i]
		if rank := int(c.ID >> 32); rank < len(g.peers) && g.peers[rank] != nil {
			g.peers[rank].complete(c)
		}
	}
}

// wait polls until needs says of no peer any more that something must come from it.
// A peer that is gone matters only if it is needed: one that has made its last call
// may leave.
func (g *Group) wait(needs func(*peer) bool) error {
	for {
		var lost *peer
		for _, p := range g.around { // before the poll: what it said comes first
			if p.gone.Load() {
				lost = p
				break
			}
		}
		g.poll()
		left := 0
		for _, p := range g.around {
			if !needs(p) {
				continue
			}
			left++
			if p.err != nil {
				return g.lost(p)
			}
			if lost != nil && p.gone.Load() {
				lost = p
			}
		}
		if left == 0 {
			return nil
		}
		if err := g.Err(); err != nil {
			return err
		}
		if lost != nil && needs(lost) {
			g.poll() // it may have said so between the two
			if needs(lost) {
				return g.lost(lost)
			}
			continue
		}
		if err := g.mux.Wait(g.deadline); errors.Is(err, rdma.ErrDeadline) {
			return g.blame(needs)
		} else if err != nil {
			return err
		}
	}
}

// lost blames a peer whose connection or request failed, unless it has said who is
// to blame before.
func (g *Group) lost(p *peer) error {
	select {
	case <-p.conn.Done():
	case <-time.After(afterword):
	}
	if err := g.Err(); err != nil {
		return err
	}
	cause := p.err
	if cause == nil {
		cause = p.conn.Err()
	}
	fault := coll.Gone
	if errors.Is(cause, &rdma.Error{Status: rdma.StatusRetryExceeded}) && !p.gone.Load() {
		fault = coll.Silent
	}
	return &coll.RankError{Rank: p.rank, Fault: fault, Cause: cause}
}

// afterword is how long a rank that failed may take to say why. A process that is
// killed says nothing, and its connection ends at once.
const afterword = 500 * time.Millisecond

// blame finds out which rank has kept the others waiting: one of those that are needed, or
// where these wait themselves one that they need. A call that is made inside hosts first
// has such.
func (g *Group) blame(needs func(*peer) bool) error {
	var missing, others []*peer
	for _, p := range g.around {
		switch {
		case needs(p):
			missing = append(missing, p)
		case !p.gone.Load(): // who has made its last call may leave
			others = append(others, p)
		}
	}
	says, errs := g.ask(missing)
	if err := g.Err(); err != nil { // another was quicker
		return err
	}
	for i, p := range missing {
		if errs[i] != nil {
			return &coll.RankError{Rank: p.rank, Fault: coll.Silent, Cause: errs[i]}
		}
	}
	for i, p := range missing {
		if says[i].At < 2*g.call+1 {
			return &coll.RankError{Rank: p.rank, Fault: coll.Late, Cause: fmt.Errorf("it has made %d calls", says[i].At/2)}
		}
	}
	_, errs = g.ask(others)
	if err := g.Err(); err != nil {
		return err
	}
	for i, p := range others {
		if errs[i] != nil && p.conn.Err() == nil { // else it has left meanwhile, or who needs it says so
			return &coll.RankError{Rank: p.rank, Fault: coll.Silent, Cause: errs[i]}
		}
	}
	p := missing[0]
	return &coll.RankError{Rank: p.rank, Fault: coll.Late, Cause: fmt.Errorf("it is in the call and waits itself: the time was too short, or the network loses what they send")}
}

// ask has peers say where they are.
func (g *Group) ask(peers []*peer) (says []whereReply, errs []error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	says, errs = make([]whereReply, len(peers)), make([]error, len(peers))
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(rdma.Guarded(g.onPanic, func() { errs[i] = p.conn.Call(ctx, methodWhere, nil, &says[i]) }))
	}
	wg.Wait()
	return says, errs
}

// answerTime is what a rank that runs may take to say where it is.
const answerTime = 2 * time.Second

// fail breaks the group and tells the others whom to blame.
func (g *Group) fail(err error, kind coll.Kind) error {
	var blamed *coll.RankError
	if !errors.As(err, &blamed) {
		err = fmt.Errorf("ring: call %d (%s): %w", g.call, kind, err)
	} else if blamed.Call == 0 && g.Err() == nil { // a verdict is read by others
		blamed.Call, blamed.Kind = g.call, kind
	}
	g.setVerdict(err)
	g.tell()
	g.telling.Wait() // so that nobody passes this call who can be told
	return g.Err()
}

// setVerdict keeps the first one.
func (g *Group) setVerdict(err error) bool { return g.verdict.CompareAndSwap(nil, &err) }

// Abort is coll.Group's.
func (g *Group) Abort(why error) {
	if g.setVerdict(fmt.Errorf("ring: aborted here: %w", why)) {
		g.tell()
		g.mux.Wake()
	}
}

// tell sends the verdict, once, to all but its culprit, who hears it from nobody if it is
// dead and finds out by itself if not. Who has heard it from another passes it on before
// it leaves: else a third, who sees it leave before it hears of the other, blames it.
func (g *Group) tell() { g.told.Do(g.tellAll) }

func (g *Group) tellAll() {
	err := g.Err()
	if err == nil || errors.Is(err, coll.ErrClosed) {
		return
	}
	var e *coll.RankError
	if !errors.As(err, &e) {
		e = &coll.RankError{Rank: g.place.Rank, Fault: coll.Aborted, Cause: err}
	}
	say := abortCall{Rank: e.Rank, Fault: e.Fault, Call: e.Call, Kind: e.Kind, Why: fmt.Sprint(e.Cause)}
	for _, p := range g.around {
		if p.rank == e.Rank && e.Fault != coll.Late && e.Fault != coll.Differs || p.gone.Load() {
			continue
		}
		g.telling.Go(rdma.Guarded(g.onPanic, func() {
			ctx, cancel := context.WithTimeout(g.ctx, answerTime)
			defer cancel()
			_ = p.conn.Call(ctx, methodAbort, say, nil) // who cannot be told sees this connection end
		}))
	}
}

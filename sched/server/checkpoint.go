package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// checkpoint is a server's part of one, while it is written.
type checkpoint struct {
	writing sync.WaitGroup
	cancel  context.CancelFunc

	mu    sync.Mutex
	parts []ckpt.Part
	sum   table.Digest
	pause float64
	err   error
	delta bool
	memos map[uint32]accessor.Memo
	count map[uint32]*accessor.Scores
	leads []psmsg.Lead
}

// Cut begins a checkpoint's cut; see psmsg.CutRequest.
func (s *Server) Cut(req psmsg.CutRequest) error {
	if !s.cfg.Tracked {
		return fmt.Errorf("%s: its tables do not note what changes: start it with Config.Tracked", s.cfg.name())
	}
	ctx, cancel := context.WithTimeout(context.Background(), wholeTimeout)
	var w *ckpt.Writer
	var err error
	if !req.Scores { // which are written nowhere
		w, err = ckpt.WriterFor(ctx, req.Ticket)
	}
	if err != nil {
		cancel()
		return err
	}
	k := &checkpoint{cancel: cancel, delta: req.Delta || req.Serving, memos: map[uint32]accessor.Memo{}, count: map[uint32]*accessor.Scores{}}
	s.cutMu.Lock()
	defer s.cutMu.Unlock()
	if s.cut != nil {
		s.cut.cancel()
	}
	s.cut = k
	return s.each(func(l *lane) error { // which fails where a lane has ended, and the job with it
		c := newCutting(req, l.widest())
		l.arm(c)
		k.writing.Go(func() {
			k.note(c.write(ctx, w, l))
			k.live(c)
			k.lead(c)
		})
		return nil
	})
}

// widest is the bytes of the lane's largest row.
func (l *lane) widest() (n int) {
	for _, t := range l.order {
		n = max(n, t.spec.RowBytes())
	}
	return n
}

// lead notes what a lane had beyond the cut's step.
func (k *checkpoint) lead(c *cutting) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil { // else the lane may be at it
		k.leads = append(k.leads, c.leads...)
	}
}

func (k *checkpoint) note(parts []ckpt.Part, sum table.Digest, pause float64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts = append(k.parts, parts...)
	k.sum.Add(sum)
	k.pause = max(k.pause, pause)
	k.err = errors.Join(k.err, err)
}

// CutParts waits until the cut is written, or until ctx ends: the lanes that write
// it last as long as who asks for it.
func (s *Server) CutParts(ctx context.Context) (psmsg.SaveReply, error) {
	s.cutMu.Lock()
	k := s.cut
	s.cutMu.Unlock()
	if k == nil {
		return psmsg.SaveReply{}, fmt.Errorf("%s: no checkpoint is under way", s.cfg.name())
	}
	written := make(chan struct{})
	go func() {
		k.writing.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-ctx.Done():
		return psmsg.SaveReply{}, fmt.Errorf("%s: writing a checkpoint: %w", s.cfg.name(), context.Cause(ctx))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return psmsg.SaveReply{}, fmt.Errorf("%s: writing a checkpoint: %w", s.cfg.name(), k.err)
	}
	b, err := json.Marshal(k.parts)
	rep := psmsg.SaveReply{Parts: b, PauseSeconds: k.pause, Lifecycle: psmsg.MemoTexts(k.memos), Scores: k.count, Leads: k.leads}
	if !k.delta {
		rep.Digest = k.sum.String()
	}
	return rep, err
}

// CutDone ends the cut, or what of it is not begun.
func (s *Server) CutDone(req psmsg.CutDoneRequest) error {
	s.cutMu.Lock()
	defer s.cutMu.Unlock()
	if s.cut == nil {
		return nil
	}
	if req.Untaken {
		return s.each(func(l *lane) error {
			if l.cut != nil && !l.cut.taken {
				l.endCut(false)
			}
			return nil
		})
	}
	err := s.each(func(l *lane) error { l.endCut(req.Committed); return nil })
	s.cut.cancel()
	s.cut = nil
	return err
}

// write takes what the lane gives into part files.
func (c *cutting) write(ctx context.Context, w *ckpt.Writer, l *lane) (parts []ckpt.Part, sum table.Digest, pause float64, err error) {
	defer func() {
		if err != nil {
			c.failed.Store(true)
		}
	}()
	var rw *ckpt.RowsWriter
	var hash table.RowHasher
	for {
		var k *chunk
		select {
		case k = <-c.out:
		case <-c.done:
			return nil, sum, 0, errCutGivenUp
		case <-l.gone:
			return nil, sum, 0, fmt.Errorf("server: lane %d has ended", l.global)
		case <-ctx.Done():
			return nil, sum, 0, context.Cause(ctx)
		}
		if k.err != nil {
			return nil, sum, 0, k.err
		}
		if len(c.specs) == 0 {
			break
		}
		spec := c.specs[k.table]
		if c.scores {
			last := k.end && k.table == len(c.specs)-1
			c.free <- k // the lane's again
			if last {
				return nil, sum, c.pause.Seconds(), nil
			}
			l.mux.Wake()
			continue
		}
		if rw == nil {
			if rw, err = w.Rows(fmt.Sprintf("t%d-lane%d", spec.ID, l.global), spec, l.covers()); err != nil {
				return nil, sum, 0, err
			}
			defer rw.Abort()
			if !c.serving {
				if n := c.holds[k.table]; n >= 0 {
					rw.Holds(n)
				}
			}
		}
		if err = k.write(rw, spec.RowFloats()); err != nil {
			return nil, sum, 0, err
		}
		if !c.delta && !c.serving {
			width := spec.RowFloats()
			for i, key := range k.keys {
				sum.Add(hash.Hash(spec.ID, key, mem.Bytes(k.rows[i*width:(i+1)*width])))
			}
		}
		end, last := k.end, k.table == len(c.specs)-1
		c.free <- k
		l.mux.Wake()
		if end {
			p, err := rw.Close()
			if err != nil {
				return nil, sum, 0, err
			}
			parts, rw = append(parts, p), nil
			if last {
				break
			}
		}
	}
	sum.Add(c.dense.digest())
	p, err := c.dense.write(w, l)
	return append(parts, p...), sum, c.pause.Seconds(), err
}

func (k *chunk) write(rw *ckpt.RowsWriter, width int) error {
	for _, key := range k.gone {
		if err := rw.Delete(key); err != nil {
			return err
		}
	}
	for i, key := range k.keys {
		if err := rw.Add(key, k.rows[i*width:(i+1)*width]); err != nil {
			return err
		}
	}
	return nil
}

func (c denseCut) write(w *ckpt.Writer, l *lane) ([]ckpt.Part, error) {
	if len(c.blocks) == 0 {
		return nil, nil
	}
	dw, err := w.Dense(fmt.Sprintf("dense-lane%d", l.global), DenseID)
	if err != nil {
		return nil, err
	}
	for i, b := range c.blocks {
		if err := dw.Add(int64(b.Offset), c.values[i], c.state[i]); err != nil {
			dw.Abort()
			return nil, err
		}
	}
	p, err := dw.Close()
	return []ckpt.Part{p}, err
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// DenseID is the dense vector's number in a saved model.
const DenseID = psmsg.DenseID

// wholeTimeout bounds what goes over every row: saving, loading, digesting. At
// a slow disk's 50 MB/s it is enough for 90 GB a lane.
const wholeTimeout = 30 * time.Minute

// Save writes this server's part of a model into an incoming checkpoint
// directory. Each lane writes its own rows, on its own goroutine: what is
// written is the lane's state at one moment, and training of that lane waits.
func (s *Server) Save(req psmsg.SaveRequest) (psmsg.SaveReply, error) {
	w := ckpt.NewWriter(req.Dir, req.WeightsOnly)
	var mu sync.Mutex
	var parts []ckpt.Part
	var sum table.Digest
	memos := map[uint32]accessor.Memo{}
	err := s.eachWithin(wholeTimeout, func(l *lane) error {
		mine, digest, err := l.save(w)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		parts = append(parts, mine...)
		sum.Add(digest)
		for id, m := range l.lifeOf() {
			if err := psmsg.AddMemo(memos, id, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return psmsg.SaveReply{}, fmt.Errorf("%s: saving: %w", s.cfg.name(), err)
	}
	b, err := json.Marshal(parts)
	return psmsg.SaveReply{Parts: b, Digest: sum.String(), Lifecycle: psmsg.MemoTexts(memos)}, err
}

func (l *lane) save(w *ckpt.Writer) ([]ckpt.Part, table.Digest, error) {
	sum := l.dense.digest()
	var parts []ckpt.Part
	for _, t := range l.order {
		digest, err := t.rows.Digest()
		if err != nil {
			return nil, sum, err
		}
		sum.Add(digest)
		rw, err := w.Rows(l.partFile(fmt.Sprint("t", t.spec.ID)), t.spec, l.covers())
		if err != nil {
			return nil, sum, err
		}
		ranged := t.rows.Range(func(key uint64, row []float32) bool {
			err = rw.Add(key, row)
			return err == nil
		})
		if err = errors.Join(err, ranged); err != nil {
			rw.Abort()
			return nil, sum, err
		}
		p, err := rw.Close()
		if err != nil {
			return nil, sum, err
		}
		parts = append(parts, p)
	}
	if len(l.dense.blocks) > 0 {
		dw, err := w.Dense(l.partFile("dense"), DenseID)
		if err != nil {
			return nil, sum, err
		}
		for i, b := range l.dense.blocks {
			if err := dw.Add(int64(b.Offset), l.dense.vector.Values(i), l.dense.vector.State(i)); err != nil {
				dw.Abort()
				return nil, sum, err
			}
		}
		p, err := dw.Close()
		if err != nil {
			return nil, sum, err
		}
		parts = append(parts, p)
	}
	return parts, sum, nil
}

// partFile names a part of a model that this lane writes. A group's next head writes it
// again where this one dies in the middle: a part of each attempt has its own name.
func (l *lane) partFile(of string) string {
	name := fmt.Sprintf("%s-lane%d", of, l.global)
	if l.chain != nil {
		name += fmt.Sprintf("-%08x", rand.Uint32())
	}
	return name
}

// covers is the lane's slots in the checkpoint's terms.
func (l *lane) covers() []ckpt.Range {
	var out []ckpt.Range
	for _, r := range l.cfg.Map.SlotRanges(l.global) {
		out = append(out, ckpt.Range{First: r.First, Last: r.Last})
	}
	return out
}

// Load replaces this server's state by its part of the model in a directory,
// which servers of any number may have written.
func (s *Server) Load(req psmsg.LoadRequest) error {
	ctx, cancel := context.WithTimeout(context.Background(), wholeTimeout)
	defer cancel()
	m, err := openModel(ctx, req)
	if err != nil {
		return err
	}
	if m.WeightsOnly {
		return fmt.Errorf("%s: the model in %s has no optimizer state and cannot be trained further", s.cfg.name(), req.Dir)
	}
	if s.cfg.Chain != nil {
		_, err := s.lanes[0].chain.order(ctx, wholeTimeout, order{Load: &req})
		return err
	}
	return s.eachWithin(wholeTimeout, func(l *lane) error {
		l.goOnFrom(req.Leads)
		return l.load(m, req)
	})
}

func openModel(ctx context.Context, req psmsg.LoadRequest) (*ckpt.Model, error) {
	if req.Generation != 0 {
		return ckpt.OpenAt(ctx, req.Dir, req.Generation)
	}
	return ckpt.Open(req.Dir)
}

// forgetRows lets go all rows of a table that is about to be made anew, but for
// those of held pushes: there are none then.
func (l *lane) forgetRows(t *tableState) {
	for _, s := range l.current {
		if s == nil {
			continue
		}
		for i := range s.tickets {
			if k := &s.tickets[i]; k.id != 0 && k.table == t.spec.ID {
				l.giveBack(t, k.rows)
				*k = ticket{}
			}
		}
		for _, r := range s.order {
			if r.Kind == psmsg.KindPush && r.Table == t.spec.ID {
				l.forget(r)
			}
		}
	}
}

// betweenSteps refuses to replace rows that held pushes name.
func (l *lane) betweenSteps() error {
	n := len(l.dense.held)
	for _, t := range l.order {
		n += len(t.held)
	}
	if n > 0 {
		return fmt.Errorf("server: lane %d cannot load a model now: %d pushes wait for their step to be whole; load between steps", l.global, n)
	}
	return nil
}

// someTables says whether the model has any of the lane's tables: one that has
// none is not this job's.
func (l *lane) someTables(m *ckpt.Model) bool {
	return slices.ContainsFunc(l.order, func(t *tableState) bool { return m.Spec(t.spec.ID) != nil })
}

func (l *lane) load(m *ckpt.Model, req psmsg.LoadRequest) error {
	l.endCut(false)
	ctx, cancel := context.WithTimeout(context.Background(), wholeTimeout)
	defer cancel()
	if err := errors.Join(l.settleReads(commandTimeout), l.betweenSteps()); err != nil {
		return err
	}
	l.forgetPast()
	for _, t := range l.order {
		was := m.Spec(t.spec.ID)
		if was == nil && l.someTables(m) {
			continue // a table newer than the model
		}
		if was == nil || !was.SameRows(t.spec) {
			return fmt.Errorf("server: %w", unlike(t.spec, was, m.Dir()))
		}
		l.forgetRows(t)
		if err := t.rows.Reset(); err != nil {
			return err
		}
		l.audit.Emptied(t.spec.ID, t.version)
		if err := l.restoreLife(t, m.Lifecycle[t.spec.ID], req.KeepOpen); err != nil {
			return fmt.Errorf("server: %s: %w", m.Dir(), err)
		}
		l.noteLived(t)
		if err := l.loadRows(ctx, m, t); err != nil {
			return err
		}
		if req.Saved {
			t.rows.Saved()
		}
	}
	if len(l.dense.blocks) == 0 {
		return nil
	}
	err := m.DenseBlocks(ctx, DenseID, func(first int64, values, state []float32) error {
		i := slices.IndexFunc(l.dense.blocks, func(b densemap.Block) bool { return int64(b.Offset) == first })
		if i < 0 {
			return nil // another lane's
		}
		l.audit.LoadedBlock(l.dense.blocks[i].Index, l.dense.version, values, state)
		return l.dense.vector.Load(i, values, state)
	})
	l.dense.vector.Publish()
	return err
}

// unlike says why a saved table cannot be loaded.
func unlike(is table.Spec, was *table.Spec, dir string) error {
	if was == nil {
		return fmt.Errorf("the model in %s has no table %s (number %d); load a model of this job", dir, is.Name, is.ID)
	}
	of := func(s *table.Spec) string {
		text := fmt.Sprintf("dimension %d and optimizer %s", s.Dim, s.Optimizer.Name())
		if l := s.Lifecycle; l != nil {
			text += fmt.Sprintf(" and a lifecycle with rules %q and %q", l.Embed.Rule, l.Embedx.Rule)
		}
		return text
	}
	return fmt.Errorf("table %s has %s, the model in %s was saved with %s; give it the same, or load another model", is.Name, of(&is), dir, of(was))
}

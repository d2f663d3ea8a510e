package serve

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// Meta is how a saved model says where it comes from.
type Meta struct {
	Kind  string    `json:"kind"` // always "serve": there is no network in it
	Seed  uint64    `json:"seed"`
	Saved time.Time `json:"saved"`
}

// save writes the model as it is. Each lane is written as it is at one moment;
// the trainers go on meanwhile, so a push that spans lanes may be in some of them.
// last: no trainer is connected any more.
func (s *Server) save(dir string, last bool) (err error) {
	s.saving.Lock()
	defer s.saving.Unlock()
	defer func() { s.cfg.OnSave(err) }()
	in, err := ckpt.Begin(dir)
	if err != nil {
		return err
	}
	defer func() { _ = in.Abort() }() // nothing after Commit
	replies, err := s.collect(in.Path(), last)
	if err != nil {
		return err
	}
	var parts []ckpt.Part
	var sum table.Digest
	for i, r := range replies {
		var some []ckpt.Part
		var d table.Digest
		if err := json.Unmarshal(r.Parts, &some); err != nil {
			return fmt.Errorf("serve: what server %d saved is not understood: %w", i, err)
		}
		if n, err := hex.Decode(d[:], []byte(r.Digest)); err != nil || n != len(d) {
			return fmt.Errorf("serve: server %d's digest %q is none", i, r.Digest)
		}
		parts = append(parts, some...)
		sum.Add(d)
	}
	meta, err := json.Marshal(Meta{Kind: "serve", Seed: s.cfg.Tables.Seed, Saved: time.Now().UTC()})
	if err != nil {
		return err
	}
	m := ckpt.Manifest{Meta: meta, Digest: sum.String(), Slots: place.DefaultSlots, Parts: parts}
	if m.Lifecycle, err = psmsg.MergeLifecycles(replies); err != nil {
		return fmt.Errorf("serve: the servers do not agree: %w", err)
	}
	named := map[uint32]bool{} // a table that was made meanwhile is not in every lane's part
	for _, p := range parts {
		named[p.Table] = named[p.Table] || !p.Dense
	}
	for _, spec := range s.server.Tables() {
		if named[spec.ID] {
			m.Tables = append(m.Tables, spec)
		}
	}
	if n := s.cfg.Tables.Dense.Floats; n > 0 {
		m.Dense = []ckpt.DenseSpec{{Name: "dense", ID: server.DenseID, Elements: int64(n)}}
	}
	if err := in.Commit(m); err != nil {
		return err
	}
	s.cfg.Log(fmt.Sprintf("saved %s (digest %s)", dir, m.Digest))
	return nil
}

// saveNowAndThen saves every SaveEvery until ctx ends. A save that fails is told
// and tried again the next time: the last good one is still there.
func (s *Server) saveNowAndThen(ctx context.Context) {
	if s.cfg.SaveEvery == 0 || s.cfg.index() > 0 {
		return
	}
	t := time.NewTicker(s.cfg.SaveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !s.begun.Load() {
			continue
		}
		if err := s.save(s.cfg.Save, false); err != nil && ctx.Err() == nil {
			s.cfg.Log(fmt.Sprintf("could not save: %v", err))
		}
	}
}

// load makes the tables that the model has and the tables file lacks (trainers
// made them), then loads all.
func (s *Server) load(dir string) error {
	m, err := ckpt.Open(dir)
	if err != nil {
		return err
	}
	known := s.server.Tables()
	for _, spec := range m.Tables {
		if slices.ContainsFunc(known, func(t table.Spec) bool { return t.ID == spec.ID }) {
			continue // loading compares them
		}
		rep, err := s.server.OpenTable(psmsg.TableRequest{Name: spec.Name, Spec: &spec})
		if err == nil && rep.Refused != "" {
			err = &InputError{Path: "--load " + dir, Msg: rep.Refused}
		}
		if err != nil {
			return err
		}
		if rep.Spec.ID != spec.ID {
			return &InputError{Path: "--load " + dir, Msg: fmt.Sprintf("table %q has the number %d there and %d here; give it `id: %d` in the tables file", spec.Name, spec.ID, rep.Spec.ID, spec.ID)}
		}
	}
	return s.server.Load(psmsg.LoadRequest{Dir: dir})
}

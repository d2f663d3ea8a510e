package server

import (
	"fmt"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// consistency is how stale a table is in one lane, and was.
type consistency struct {
	mode  clock.Mode
	adapt *clock.Adapt // nil where the bound stays
	seen  psmsg.Staleness
}

// modeOf is a table's mode, of psmsg.DenseLead that of the dense vector.
func (c *Config) modeOf(table uint32) clock.Mode {
	if m, ok := c.Modes[table]; ok {
		return m
	}
	return clock.Fixed(c.Staleness)
}

// holds says whether some table's updates wait until a step is whole.
func (c *Config) holds() bool {
	if c.Staleness == 0 {
		return true
	}
	for _, m := range c.Modes {
		if m.BSP() {
			return true
		}
	}
	return false
}

// holdsSteps is Config.holds of this lane: one without dense values has nothing of a vector in
// BSP.
func (l *lane) holdsSteps() bool {
	return l.dense.vector != nil && l.dense.sync.mode.BSP() || slices.ContainsFunc(l.order, func(t *tableState) bool { return t.sync.mode.BSP() })
}

// apart is how many steps of coming batches lie between workers, Async where nothing
// bounds it.
func (c *Config) apart() int {
	most := c.Staleness
	for _, m := range c.Modes {
		most = max(most, m.Most)
	}
	return most
}

func (c *Config) validateModes() error {
	for id, m := range c.Modes {
		if err := m.Check(); err != nil {
			return err
		}
		if id != denseTable && !slices.ContainsFunc(c.Tables, func(t table.Spec) bool { return t.ID == id }) {
			return fmt.Errorf("server: %s is for table %d, which there is not", m, id)
		}
	}
	return nil
}

func newSync(c *Config, table uint32) consistency {
	s := consistency{mode: c.modeOf(table)}
	if s.mode.Moves() {
		s.adapt = clock.NewAdapt(s.mode, c.Workers)
	}
	return s
}

// bound is by how many steps a read may be stale now.
func (s *consistency) bound() int {
	if s.adapt != nil {
		return s.adapt.Bound()
	}
	return s.mode.Most
}

// syncOf is that of what a request is for.
func (l *lane) syncOf(r *request) *consistency {
	if r.Kind == psmsg.KindPull || r.Kind == psmsg.KindPush || r.Kind == psmsg.KindAnnounce {
		return &l.tables[r.Table].sync
	}
	return &l.dense.sync
}

// mayPull says whether the clocks let a pull be answered.
func (l *lane) mayPull(r *request) bool {
	if r.Flags&psmsg.FlagNoClock != 0 {
		return true
	}
	s := l.syncOf(r)
	if l.clock.Allows(r.Clock, s.bound()) {
		return true
	}
	// A worker that is in an earlier step still has something to do meanwhile.
	if s.adapt != nil && r.stood.IsZero() && l.clock.At(r.s.worker) >= r.Clock {
		r.stood = l.began
	}
	return false
}

// lookAtBounds moves those that do.
func (l *lane) lookAtBounds() {
	look := func(s *consistency) {
		if s.adapt != nil {
			s.adapt.Look(l.began.Sub(l.epoch).Seconds(), l.clock.Min())
		}
	}
	for _, t := range l.order {
		look(&t.sync)
	}
	look(&l.dense.sync)
}

// noteStaleness counts what an answered pull lacks. Workers of trainers without clocks
// are not asked for theirs.
func (l *lane) noteStaleness(r *request) {
	if r.Flags&psmsg.FlagNoClock != 0 {
		return
	}
	s := l.syncOf(r)
	s.seen.Note(r.Clock - min(l.clock.Min(), r.Clock))
	if s.adapt != nil && !r.stood.IsZero() {
		s.adapt.Waited(l.began.Sub(r.stood).Seconds())
	}
}

// DenseName is what the dense vector is called among tables.
const DenseName = "dense"

// addSyncs adds a lane's tables to what others have told.
func (l *lane) addSyncs(rep *psmsg.StatsReply) {
	add := func(name string, s *consistency) {
		rep.Staleness.Add(s.seen)
		st := psmsg.SyncStats{Table: name, Mode: s.mode.String(), Seen: slices.Clone(s.seen), Lanes: 1, Bound: float64(s.bound())}
		if s.adapt != nil {
			st.Raised, st.Lowered = s.adapt.Changes()
		}
		rep.Syncs = psmsg.AddSyncs(rep.Syncs, st)
	}
	for _, t := range l.order {
		add(t.spec.Name, &t.sync)
	}
	if l.dense.vector != nil {
		add(DenseName, &l.dense.sync)
	}
}

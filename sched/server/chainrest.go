package server

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"psrt/rdma/mem"
	"psrt/sched/chain"
	"psrt/sched/clock"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// restVersion is of the form of Rest. 1: the first.
const restVersion = 1

// rest is a lane's state but its rows: 4 bytes of length, this as JSON, and behind it
// the bodies of held pushes and the dense blocks, each its values and its state.
type rest struct {
	Version      int                 `json:"version"`
	Clock        clock.State         `json:"clock"`
	Tables       []restTable         `json:"tables"`
	Events       []restEvents        `json:"events,omitempty"`
	Held         []restHeld          `json:"held,omitempty"`
	DenseVersion uint64              `json:"dense_version"`
	Next         map[uint32][]uint64 `json:"next,omitempty"` // of leads
	Skip         map[uint32][]uint64 `json:"skip,omitempty"`
	// Parts a program of before does not say, nor keep.
	Parts denseParts `json:"parts,omitempty"`
	// Was are the versions of what is retained; a program of before says none.
	Was map[uint32]uint64 `json:"was,omitempty"`
}

type restTable struct {
	Spec    table.Spec `json:"spec"`
	Version uint64     `json:"version"`
	Memo    string     `json:"memo,omitempty"`
	Sweeps  bool       `json:"sweeps,omitempty"`
}

type restEvents struct {
	Step   uint64 `json:"step"`
	Table  uint32 `json:"table"`
	Events string `json:"events"`
}

type restHeld struct {
	Worker uint32 `json:"worker"`
	Client uint64 `json:"client"`
	Push   uint64 `json:"push"`
	Bytes  int    `json:"bytes"`
}

// Rest is the state but its rows; see chain.State.
func (c *chained) Rest() []byte {
	l := c.l
	r := rest{Version: restVersion, Clock: l.clock.State(), DenseVersion: l.dense.version, Next: l.leads.next, Skip: l.leads.skip, Parts: l.parts.some(), Was: l.was.versions}
	var tail [][]byte
	hold := func(held []*request) {
		for _, h := range held {
			body := c.asOld(&chain.Header{Worker: uint32(h.s.worker), Client: h.s.client, Push: h.Seq}, h.body)
			r.Held = append(r.Held, restHeld{uint32(h.s.worker), h.s.client, h.Seq, len(body)})
			tail = append(tail, body)
		}
	}
	for _, t := range l.order {
		rt := restTable{Spec: t.spec, Version: t.version, Sweeps: t.sweep != sweepNone}
		if acc := t.rows.Accessor(); acc.HasLifecycle() {
			rt.Memo = acc.Memo().String()
		}
		r.Tables = append(r.Tables, rt)
		hold(t.held)
	}
	hold(l.dense.held)
	for _, h := range l.lives.waiting {
		r.Events = append(r.Events, restEvents{h.step, h.table.spec.ID, accessor.FormatEvents(h.events...)})
	}
	for i := range l.dense.blocks {
		tail = append(tail, mem.Bytes(l.dense.vector.Values(i)), mem.Bytes(l.dense.vector.State(i)))
	}
	head, err := json.Marshal(r)
	if err != nil {
		c.fail(fmt.Errorf("server: group %d: the state cannot be written down: %w", c.cfg.Group, err))
		return nil
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	return slices.Concat(append([][]byte{out, head}, tail...)...)
}

// Begin takes what Rest gave.
func (c *chained) Begin(b []byte) {
	if c.failed != nil {
		return
	}
	c.dirty = true
	if err := c.begin(b); err != nil {
		c.fail(fmt.Errorf("server: group %d: the copy's beginning: %w", c.cfg.Group, err))
	}
}

func (c *chained) begin(b []byte) error {
	l := c.l
	l.forgetPast()
	var r rest
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
		return errCopy
	}
	head := b[4 : 4+binary.LittleEndian.Uint32(b)]
	b = b[4+len(head):]
	if err := json.Unmarshal(head, &r); err != nil {
		return err
	}
	if r.Version != restVersion {
		return fmt.Errorf("%w: form %d, this program knows %d", errCopy, r.Version, restVersion)
	}
	cl, err := clock.Restore(l.cfg.Workers, l.cfg.Staleness, r.Clock)
	if err != nil {
		return err
	}
	l.clock, l.dense.version, l.leads = cl, r.DenseVersion, leads{next: r.Next, skip: r.Skip}
	l.parts = make(denseParts, l.cfg.Workers)
	copy(l.parts, r.Parts)
	clear(l.was.versions)
	maps.Copy(l.was.versions, r.Was)
	for _, rt := range r.Tables {
		if l.tables[rt.Spec.ID] == nil {
			if err := c.addTable(rt.Spec); err != nil {
				return err
			}
		}
		t := l.tables[rt.Spec.ID]
		if !t.spec.Equal(rt.Spec) {
			return fmt.Errorf("%w: table %q is another one here", errCopy, rt.Spec.Name)
		}
		if err := l.restoreLife(t, rt.Memo, true); err != nil {
			return err
		}
		if t.version = rt.Version; rt.Sweeps || rt.Memo != "" {
			t.sweep = sweepAgain
		}
	}
	for _, e := range r.Events {
		events, err := accessor.ParseEvents(e.Events)
		if err != nil || l.tables[e.Table] == nil {
			return fmt.Errorf("%w: events of table %d: %v", errCopy, e.Table, err)
		}
		l.lives.waiting = append(l.lives.waiting, happening{l.nextOrder(), e.Step, l.tables[e.Table], events})
	}
	if b, err = c.beginHeld(r.Held, b); err != nil {
		return err
	}
	return c.beginDense(b)
}

func (c *chained) beginHeld(held []restHeld, b []byte) ([]byte, error) {
	for _, h := range held {
		if h.Bytes < 0 || h.Bytes > len(b) {
			return nil, errCopy
		}
		q, err := c.decode(&chain.Header{Worker: h.Worker, Client: h.Client, Push: h.Push}, slices.Clone(b[:h.Bytes]))
		if err != nil {
			return nil, err
		}
		b = b[h.Bytes:]
		c.hold(q)
	}
	return b, nil
}

func (c *chained) beginDense(b []byte) error {
	d := &c.l.dense
	for i := range d.blocks {
		values, state := len(d.vector.Values(i)), len(d.vector.State(i))
		if len(b) < 4*(values+state) {
			return errCopy
		}
		floats := make([]float32, values+state)
		copy(mem.Bytes(floats), b)
		b = b[4*(values+state):]
		if err := d.vector.Load(i, floats[:values], floats[values:]); err != nil {
			return err
		}
	}
	if len(b) > 0 {
		return errCopy
	}
	if d.vector != nil {
		d.vector.Publish()
	}
	return nil
}

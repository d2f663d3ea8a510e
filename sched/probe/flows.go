package probe

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
)

// flowKey is struct roce_key of bth.h.
type flowKey struct {
	Source    [16]byte
	QueuePair uint32
	Interface uint32
}

// flowValue is struct flow of roce.bpf.c; its windows are the kernel's own.
type flowValue struct {
	Lock     uint32
	Top      [2]uint32
	_        uint32
	Bytes    uint64
	Messages uint64
	Repeated uint64
	Seen     [2][32]uint64
}

func (v *flowValue) count() Count { return Count{v.Bytes, v.Messages, v.Repeated} }

// flowTable reads the kernel's table of flows, and keeps it from filling up
// with those that are long over.
type flowTable struct {
	limit  int
	idle   time.Duration
	names  *interfaces
	last   map[flowKey]lastSeen
	keys   []flowKey
	values []flowValue
	now    func() time.Time
}

type lastSeen struct {
	count  Count
	at     time.Time // it last grew
	sample int       // in this Reading

}

func newFlowTable(limit int, idle time.Duration) flowTable {
	const batch = 256
	return flowTable{limit: limit, idle: cmp.Or(idle, time.Minute), names: newInterfaces(), last: map[flowKey]lastSeen{},
		keys: make([]flowKey, batch), values: make([]flowValue, batch), now: time.Now}
}

// Read reads what has come in so far.
func (r *RoCE) Read(out *Reading) error {
	out.reset()
	if err := r.table.read(r.flows, out); err != nil {
		return fmt.Errorf("probe: reading the flows of RoCE v2: %w", err)
	}
	full, _, err := r.misses()
	out.Lost = full
	return err
}

// Broken is how many packets to the port of RoCE were too short for what they
// say they are.
func (r *RoCE) Broken() (uint64, error) {
	_, broken, err := r.misses()
	return broken, err
}

func (r *RoCE) misses() (full, broken uint64, err error) {
	err = errors.Join(r.missed.Lookup(uint32(0), &full), r.missed.Lookup(uint32(1), &broken))
	if err != nil {
		err = fmt.Errorf("probe: reading how many packets were not counted: %w", err)
	}
	return full, broken, err
}

func (t *flowTable) read(flows *ebpf.Map, out *Reading) error {
	now := t.now()
	present := map[flowKey]bool{}
	var cursor ebpf.MapBatchCursor
	for {
		n, err := flows.BatchLookup(&cursor, t.keys, t.values, nil)
		over := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !over {
			return err
		}
		for i, key := range t.keys[:n] {
			t.see(key, t.values[i].count(), now, out)
			present[key] = true
		}
		if over {
			break
		}
	}
	for key := range t.last {
		if !present[key] {
			delete(t.last, key)
		}
	}
	if 2*len(t.last) <= t.limit {
		return nil
	}
	return t.drop(flows, now, out)
}

func (t *flowTable) see(key flowKey, c Count, now time.Time, out *Reading) {
	seen, known := t.last[key]
	if !known || seen.count != c {
		seen = lastSeen{count: c, at: now}
	}
	seen.sample = len(out.Samples)
	t.last[key] = seen
	out.Samples = append(out.Samples, Sample{t.source(key), c})
}

func (t *flowTable) source(key flowKey) Source {
	return Source{
		Peer:      netip.AddrPortFrom(netip.AddrFrom16(key.Source).Unmap(), 0),
		Interface: t.names.name(key.Interface),
		QueuePair: key.QueuePair,
	}
}

// drop takes idle flows out of the kernel's table, with what has come in
// meanwhile. One that comes back begins anew.
func (t *flowTable) drop(flows *ebpf.Map, now time.Time, out *Reading) error {
	for key, seen := range t.last {
		if now.Sub(seen.at) < t.idle {
			continue
		}
		var v flowValue
		if err := flows.LookupAndDelete(key, &v); err != nil {
			return err
		}
		out.Samples[seen.sample].Count = v.count()
		delete(t.last, key)
	}
	return nil
}

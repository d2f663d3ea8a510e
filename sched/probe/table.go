package probe

import (
	"cmp"
	"errors"
	"time"

	"github.com/cilium/ebpf"
)

// table reads a table of the kernel's, of sources by key, and keeps it from
// filling up with those that are long over.
type table[K comparable, V any] struct {
	kernel *ebpf.Map
	idle   time.Duration
	of     func(K, *V) Sample

	last   map[K]lastSeen
	before map[Source]Count // of dropped ones that may be back at once
	byName map[Source]int   // its sample in this Reading
	keys   []K
	values []V
	reads  uint64
	now    func() time.Time
}

type lastSeen struct {
	count  Count
	at     time.Time // it last grew
	source Source
	read   uint64
}

func newTable[K comparable, V any](kernel *ebpf.Map, idle time.Duration, of func(K, *V) Sample) table[K, V] {
	const batch = 256
	return table[K, V]{kernel: kernel, idle: cmp.Or(idle, time.Minute), of: of, last: map[K]lastSeen{}, before: map[Source]Count{}, byName: map[Source]int{},
		keys: make([]K, batch), values: make([]V, batch), now: time.Now}
}

// read adds a Sample for each source. Two keys may be one source.
func (t *table[K, V]) read(out *Reading) error {
	now := t.now()
	t.reads++
	clear(t.byName)
	err := t.each(func(key K, v *V) { t.see(key, t.of(key, v), now, out) })
	if err != nil {
		return err
	}
	for key, seen := range t.last {
		if seen.read != t.reads {
			delete(t.last, key)
		}
	}
	for source, n := range t.before {
		if i, back := t.byName[source]; back {
			out.Samples[i].add(n)
		} else {
			delete(t.before, source)
		}
	}
	if 2*len(t.last) <= int(t.kernel.MaxEntries()) {
		return nil
	}
	return t.drop(now, out)
}

// each calls f for every entry.
func (t *table[K, V]) each(f func(K, *V)) error {
	var cursor ebpf.MapBatchCursor
	for {
		n, err := t.kernel.BatchLookup(&cursor, t.keys, t.values, nil)
		over := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !over {
			return err
		}
		for i := range n {
			f(t.keys[i], &t.values[i])
		}
		if over {
			return nil
		}
	}
}

func (t *table[K, V]) see(key K, s Sample, now time.Time, out *Reading) {
	seen, known := t.last[key]
	if !known || seen.count != s.Count {
		seen = lastSeen{count: s.Count, at: now, source: s.Source}
	}
	seen.read = t.reads
	t.last[key] = seen
	i, twice := t.byName[s.Source]
	if twice {
		out.Samples[i].add(s.Count)
		return
	}
	t.byName[s.Source] = len(out.Samples)
	out.Samples = append(out.Samples, s)
}

// drop takes idle entries out of the kernel's table, with what has come in
// meanwhile. One that is back by the next reading goes on, a later one begins
// anew.
func (t *table[K, V]) drop(now time.Time, out *Reading) error {
	for key, seen := range t.last {
		if now.Sub(seen.at) < t.idle {
			continue
		}
		var v V
		if err := t.kernel.LookupAndDelete(key, &v); err != nil {
			return err
		}
		final := t.of(key, &v).Count
		out.Samples[t.byName[seen.source]].add(final.since(seen.count))
		n := t.before[seen.source]
		n.add(final)
		t.before[seen.source] = n
		delete(t.last, key)
	}
	return nil
}

package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"psrt/tiers/table"
)

// aPast is of two tables, of one of which two workers pushed a row.
func aPast() (w retained, floats []float32) {
	return retained{on: true, whole: true, step: 7, tables: map[uint32]*retainedRows{
		3: {keys: []uint64{10, 20, 10}, values: []float32{1, 2, 3, 4, 1, 2}},
		1: {keys: []uint64{5}, values: []float32{6}},
		2: {},
	}}, []float32{8, 9}
}

func TestPastIsWrittenDown(t *testing.T) {
	w, floats := aPast()
	b := w.encode(floats, mostPast)
	got, dense, err := decodePast(b)
	must(t, err)
	if got.step != 7 || !slices.Equal(dense, floats) || len(got.tables) != 2 {
		t.Fatalf("%+v, %v", got, dense)
	}
	for id, want := range map[uint32]map[uint64][]float32{3: {10: {1, 2}, 20: {3, 4}}, 1: {5: {6}}} {
		of := got.tables[id]
		if len(of.keys) != len(want) || len(of.values) != of.dim()*len(want) {
			t.Errorf("table %d: %+v", id, of)
		}
		for k, row := range want {
			i, ok := of.index()[k]
			if !ok || !slices.Equal(of.values[i*of.dim():(i+1)*of.dim()], row) {
				t.Errorf("table %d, key %d: %+v", id, k, of)
			}
		}
	}
	if len(w.encode(floats, len(b))) != len(b) || w.encode(floats, len(b)-1) != nil {
		t.Errorf("%d bytes do not go by a bound of so many", len(b))
	}
}

// Whatever the bytes are, they are refused or are some past, which is written down again.
func FuzzPast(f *testing.F) {
	w, floats := aPast()
	whole := w.encode(floats, mostPast)
	f.Add(whole)
	for _, n := range []int{0, 8, 12, 16, pastHeader, len(whole) - 1} {
		f.Add(whole[:n])
	}
	for at := 4; at+8 <= len(whole); at += 4 {
		b := slices.Clone(whole)
		binary.LittleEndian.PutUint64(b[at:], 1<<62) // four times as much is 0
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w, floats, err := decodePast(b)
		if err != nil {
			if !errors.Is(err, errCopy) {
				t.Errorf("%v", err)
			}
			return
		}
		again, dense, err := decodePast(w.encode(floats, mostPast))
		if err != nil || again.step != w.step || len(dense) != len(floats) || !slices.Equal(slices.Sorted(maps.Keys(w.tables)), slices.Sorted(maps.Keys(again.tables))) {
			t.Errorf("%v: %+v is %+v", err, w, again)
		}
	})
}

// A joiner that is told of what it has not got fails its copy; one of a program that knows
// other forms only is a copy all the same.
func TestPastOfAnother(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}, dense: 5,
		change: func(c *Config) { c.Retain = true }}, 1, []int{0})
	c := w.nodes[0].servers[0].lanes[0].chain
	of := func(id uint32, dim, dense int) []byte {
		r := retained{tables: map[uint32]*retainedRows{id: {keys: []uint64{1}, values: make([]float32, dim)}}}
		return r.encode(make([]float32, dense), mostPast)
	}
	mine := of(testTable, testDim, 5)
	newer := slices.Clone(mine)
	newer[0]++
	for _, x := range []struct {
		what         string
		b            []byte
		fails, knows bool
	}{
		{"its own", mine, false, true},
		{"one without dense values", of(testTable, testDim, 0), false, true},
		{"of a newer form", newer, false, false},
		{"of an older program", nil, false, false},
		{"of another table", of(testTable+1, testDim, 5), true, false},
		{"of other rows", of(testTable, testDim+1, 5), true, false},
		{"of other dense values", of(testTable, testDim, 4), true, false},
		{"a short one", mine[:len(mine)-1], true, false},
		{"its own, again", mine, false, true},
	} {
		must(t, c.l.do(time.Minute, func() {
			c.failed = nil
			c.End(x.b)
			if fails := c.failed != nil; fails != x.fails || c.l.was.whole != x.knows || x.fails && !errors.Is(c.failed, errCopy) {
				t.Errorf("%s: it knows the past: %v; %v", x.what, c.l.was.whole, c.failed)
			}
			c.failed = nil
		}))
	}
}

// A worker dies in a step that one group has all of, and another has not. The first one's
// servers are gone by then, but for who joined last; still the step is done again as it
// was, and the model is that of a job that nothing befell.
func TestTakeoverFromACopy(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		var undisturbed table.Digest
		for _, disturbed := range []bool{false, true} {
			t.Run(fmt.Sprintf("disturbed %v", disturbed), func(t *testing.T) {
				const groups, steps, dies = 2, 4, 2
				w := newChainWorld(t, chainWorldConfig{transport: transport, groups: groups, workers: 2, tables: []table.Spec{sgdTable()}, dense: 5,
					change: func(c *Config) { c.Retain = true }}, 2, []int{0}, []int{1})
				workers := []*chainWorker{w.worker(0, 1), w.worker(1, 2)}
				// What a worker pushes in a step depends on what all groups gave it before.
				pull := func(k *chainWorker, step uint64) (sum float32) {
					for g := range groups {
						sum += k.pull(g, step, w.keysOf(g, 10), false)[0] + k.pullDense(g, step)[0]
					}
					return sum
				}
				push := func(k *chainWorker, g int, step uint64, pulled float32) {
					k.pushDense(g, step, float32(1+k.number)+pulled, false)
					k.push(g, step, w.keysOf(g, 10), float32(2+k.number)-pulled, true)
				}
				for step := range uint64(steps) {
					pulled := pull(workers[0], step)
					for g := range groups {
						push(workers[0], g, step, pulled)
					}
					pulled = pull(workers[1], step)
					push(workers[1], 0, step, pulled) // that group adds the step up
					if disturbed && step == dies {
						n := w.start()
						w.join(n, 0)
						w.until("a copy has joined", func() bool { return len(w.members(0)) == 2 })
						w.cut(w.nodes[0])
						w.kill(w.nodes[0])
						workers[1].lose(0)
						workers[1].lose(1)
						workers[1] = w.worker(1, 3)
						must(t, n.servers[0].lanes[0].do(time.Minute, func() {
							s := n.servers[0].lanes[0].standing(1)
							if !s.Gives(step) {
								t.Errorf("who goes on at step %d is told that it cannot be exact: %+v", step, s)
							}
							if want := []uint64{0, step + 1}; !slices.Equal(s.Parts, want) {
								t.Errorf("in step %d the copy knows of parts %v, want %v", step, s.Parts, want)
							}
						}))
						pulled = pull(workers[1], step)
						workers[1].seq[0] -= 2
						push(workers[1], 0, step, pulled) // again, and counts no second time
					}
					push(workers[1], 1, step, pulled)
				}
				if got := w.alike(); !disturbed {
					undisturbed = got
				} else if got != undisturbed {
					t.Errorf("the digest is %s, of an undisturbed run %s", got, undisturbed)
				}
			})
		}
	})
}

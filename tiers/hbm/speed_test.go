package hbm

import (
	"errors"
	"slices"
	"testing"
	"time"

	"psrt/csrc/probe"
	"psrt/tiers/accessor"
)

// paced is a twin whose calls take time of a clock of its own making.
type paced struct {
	Host
	model       string
	perRow      time.Duration
	first       time.Duration // more that the first gather takes
	full, fails bool
	clock       *time.Time
	turns       int
}

func (p *paced) Model() string { return p.model }

func (p *paced) Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (Arena, error) {
	if p.full {
		return nil, errors.New("full")
	}
	a, err := p.Host.Open(acc, index, rows, batchRows)
	return &pacedArena{a, p}, err
}

type pacedArena struct {
	Arena
	p *paced
}

func (a *pacedArena) Gather(slots []uint32, dst []float32, step int) Fence {
	*a.p.clock = a.p.clock.Add(time.Duration(len(slots))*a.p.perRow + a.p.first)
	a.p.first = 0
	a.p.turns++
	return a.Arena.Gather(slots, dst, step)
}

func (a *pacedArena) Update(slots []uint32, grads []float32, refused *int) Fence {
	*a.p.clock = a.p.clock.Add(time.Duration(len(slots)) * a.p.perRow)
	return a.Arena.Update(slots, grads, refused)
}

func (a *pacedArena) Wait(f Fence) error {
	if a.p.fails {
		return errors.New("it fails")
	}
	return a.Arena.Wait(f)
}

// TestSpeeds: unlike devices are measured, by their best turn and no longer than there is
// time for; like ones are not. Lanes are dealt by it.
func TestSpeeds(t *testing.T) {
	const µs = time.Microsecond
	for name, c := range map[string]struct {
		all    []*paced
		bytes  int64
		speeds []float64
		turns  []int
		lanes  []int // of eight
	}{
		"like":           {all: []*paced{{model: "a", perRow: µs}, {model: "a", perRow: 9 * µs}}, speeds: []float64{1, 1}, turns: []int{0, 0}, lanes: []int{4, 4}},
		"unlike":         {all: []*paced{{model: "a", perRow: µs}, {model: "b", perRow: 3300 * time.Nanosecond}}, speeds: []float64{1e6, 1e6 / 3.3}, turns: []int{16, 8}, lanes: []int{6, 2}},
		"a slow one":     {all: []*paced{{model: "b", perRow: time.Second}, {model: "a", perRow: µs}}, speeds: []float64{1, 1e6}, turns: []int{2, 16}, lanes: []int{0, 8}},
		"a slow begin":   {all: []*paced{{model: "a", perRow: µs, first: time.Hour}, {model: "b", perRow: µs}}, speeds: []float64{1e6, 1e6}, turns: []int{2, 16}, lanes: []int{4, 4}},
		"one is full":    {all: []*paced{{model: "a", perRow: µs, full: true}, {model: "b", perRow: µs}}, speeds: []float64{0, 1e6}, turns: []int{0, 16}, lanes: []int{0, 8}},
		"one fails":      {all: []*paced{{model: "a", perRow: µs}, {model: "b", perRow: µs, fails: true}}, speeds: []float64{1e6, 0}, turns: []int{16, 0}, lanes: []int{8, 0}},
		"all fail":       {all: []*paced{{model: "a", fails: true}, {model: "b", full: true}}, speeds: []float64{1, 1}, turns: []int{0, 0}},
		"no room":        {all: []*paced{{model: "a", perRow: µs}, {model: "b", perRow: µs}}, bytes: 1, speeds: []float64{1, 1}, turns: []int{0, 0}},
		"room for a few": {all: []*paced{{model: "a", perRow: µs}, {model: "b", perRow: 3300 * time.Nanosecond}}, bytes: 1000, speeds: []float64{1e6, 1e6 / 3.3}, turns: []int{16, 16}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := time.Unix(0, 0)
			all := make([]Device, len(c.all))
			for i, p := range c.all {
				p.Node, p.clock = -1, &clock
				all[i] = p
			}
			if c.bytes == 0 {
				c.bytes = 1 << 20
			}
			got := speeds(all, c.bytes, func() time.Time { return clock })
			for i, want := range c.speeds {
				if got[i] < want*.999 || got[i] > want*1.001 {
					t.Errorf("speeds are %v, want %v", got, c.speeds)
				}
			}
			turns := make([]int, len(all))
			for i, p := range c.all {
				turns[i] = p.turns
			}
			if !slices.Equal(turns, c.turns) {
				t.Errorf("they are measured in %v turns, want %v", turns, c.turns)
			}
			if c.lanes == nil {
				return
			}
			cards, tried, lanes := NewCards(all, got), make([]bool, len(all)), make([]int, len(all))
			for range 8 {
				lanes[cards.take(tried)]++
			}
			if !slices.Equal(lanes, c.lanes) {
				t.Errorf("eight lanes are dealt as %v, want %v", lanes, c.lanes)
			}
		})
	}
}

// TestModels: what does not say its model is as those of its name.
func TestModels(t *testing.T) {
	for want, d := range map[string]Device{"a": &paced{model: "a"}, Host{}.Name(): Host{}} {
		if got := model(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

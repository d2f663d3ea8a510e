package hbm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"psrt/csrc/probe"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm/deal"
	"psrt/tiers/table"
)

// Cards are several devices as one: each arena lies whole on that of them which has the
// fewest for its speed, so what opens as many arenas as there are like devices, a lane's part of a
// table each, has its rows spread over all. Goroutines may open arenas at once.
type Cards struct {
	all []Device

	mu   sync.Mutex
	open []deal.Load // arenas, by device
}

// NewCards needs one device at least, and the Speeds of all.
func NewCards(all []Device, speeds []float64) *Cards {
	c := &Cards{all: all, open: make([]deal.Load, len(all))}
	for i, s := range speeds {
		c.open[i].Speed = s
	}
	return c
}

// Name is those of all devices, each once.
func (c *Cards) Name() string {
	var names []string
	times := map[string]int{}
	for _, d := range c.all {
		if times[d.Name()]++; times[d.Name()] == 1 {
			names = append(names, d.Name())
		}
	}
	for i, name := range names {
		if n := times[name]; n > 1 {
			names[i] = fmt.Sprintf("%d of %s", n, name)
		}
	}
	return strings.Join(names, " and ")
}

// Slots is what fits on any of them.
func (c *Cards) Slots(spec *table.Spec, bytes int64, batchRows int) int {
	least := c.all[0].Slots(spec, bytes, batchRows)
	for _, d := range c.all[1:] {
		least = min(least, d.Slots(spec, bytes, batchRows))
	}
	return least
}

// Open takes the memory on one device; where one has none, on the next.
func (c *Cards) Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (Arena, error) {
	var refused []error
	tried := make([]bool, len(c.all))
	for range c.all {
		at := c.take(tried)
		arena, err := c.all[at].Open(acc, index, rows, batchRows)
		if err == nil {
			return &dealt{Arena: arena, name: c.all[at].Name(), leave: sync.OnceFunc(func() { c.leave(at) })}, nil
		}
		c.leave(at)
		tried[at] = true
		refused = append(refused, err)
	}
	return nil, errors.Join(refused...)
}

// take counts an arena of the next of those not tried.
func (c *Cards) take(tried []bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.Clone(c.open)
	for i := range left {
		if tried[i] {
			left[i].Speed = -1
		}
	}
	best := deal.Next(left)
	c.open[best].Parts++
	return best
}

func (c *Cards) leave(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[at].Parts--
}

// dealt is an arena of a device with a name, that is counted until it is closed.
type dealt struct {
	Arena
	name  string
	leave func()
}

func (d *dealt) Close() error {
	defer d.leave()
	return d.Arena.Close()
}

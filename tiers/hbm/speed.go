package hbm

import (
	"slices"
	"time"

	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// What unlike devices are measured by: batches of rows of a table as most are, gathered
// and updated as a lane does. The best turn counts, as others may use the device.
const (
	measureRows   = 4096
	measureBatch  = 1024
	measureTurns  = 16
	measureLeast  = 2 // turns of a device however slow: the first is the slowest
	measureWithin = 50 * time.Millisecond
)

var measured = table.Spec{Name: "measured", ID: 1, Dim: 16, Optimizer: table.Optimizer{Kind: table.AdaGrad}}

// Alike is a device that says what others that work as it does say, too; one that does
// not is as those of its name.
type Alike interface{ Model() string }

func model(d Device) string {
	if a, is := d.(Alike); is {
		return a.Model()
	}
	return d.Name()
}

// Speeds is how many rows each device gathers and updates in a second: measured where
// they are unlike, within bytes of one after the other, else 1 of all. 0 is one that has no memory
// now or fails; where all do, 1 of all.
func Speeds(all []Device, bytes int64) []float64 { return speeds(all, bytes, time.Now) }

func speeds(all []Device, bytes int64, now func() time.Time) []float64 {
	found := make([]float64, len(all))
	if slices.ContainsFunc(all, func(d Device) bool { return model(d) != model(all[0]) }) {
		for i, d := range all {
			found[i] = speed(d, bytes, now)
		}
	}
	if slices.Max(found) == 0 {
		for i := range found {
			found[i] = 1
		}
	}
	return found
}

// speed is 0 where it cannot be known: why is said by whoever opens the device for rows.
func speed(d Device, bytes int64, now func() time.Time) float64 {
	rows := min(measureRows, d.Slots(&measured, bytes, measureBatch))
	acc, err := accessor.New(measured, 1)
	if err != nil || rows < 1 {
		return 0
	}
	a, err := d.Open(acc, nil, rows, measureBatch)
	if err != nil {
		return 0
	}
	best := bestTurn(a, acc, rows, now)
	if a.Close() != nil || best == 0 {
		return 0
	}
	return float64(2*min(rows, measureBatch)) / best.Seconds()
}

// bestTurn is 0 where the device fails.
func bestTurn(a Arena, acc *accessor.Accessor, rows int, now func() time.Time) (best time.Duration) {
	width, batch := acc.RowFloats(), min(rows, measureBatch)
	flat, err := a.Buffer(batch * max(width, measured.Dim))
	if err != nil {
		return 0
	}
	clear(flat)
	slots := make([]uint32, batch)
	for first := 0; first < rows; first += batch {
		n := min(batch, rows-first)
		for i := range n {
			slots[i] = uint32(first + i)
		}
		if a.Wait(a.CopyIn(slots[:n], flat[:n*width])) != nil {
			return 0
		}
	}
	for i := range slots { // apart, as those of a batch are
		slots[i] = uint32(i * rows / batch)
	}
	flat = flat[:batch*measured.Dim]
	for turn, left := 0, measureWithin; turn < measureTurns && (left > 0 || turn < measureLeast); turn++ {
		var refused int
		begin := now()
		if a.Wait(a.Gather(slots, flat, measured.Dim)) != nil || a.Wait(a.Update(slots, flat, &refused)) != nil {
			return 0
		}
		took := max(1, now().Sub(begin))
		left -= took
		if best == 0 || took < best {
			best = took
		}
	}
	return best
}

package deal

import (
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// TestNext: dealing one by one gives the slowest part the share that the best dealing
// gives it.
func TestNext(t *testing.T) {
	r := seedtest.Rand(t)
	for range 300 {
		devices := make([]Load, 1+r.IntN(4))
		for i := range devices {
			devices[i].Speed = float64(1 + r.IntN(9))
		}
		parts := 1 + r.IntN(6)
		for range parts {
			devices[Next(devices)].Parts++
		}
		if got, want := slowest(devices), best(devices, parts); got != want {
			t.Fatalf("%d parts on %v: the slowest has %v, it could have %v", parts, devices, got, want)
		}
	}
}

// TestNextOfFew: who could not be measured comes last, and who is not to be had never.
func TestNextOfFew(t *testing.T) {
	for _, c := range []struct {
		devices []Load
		want    int
	}{
		{[]Load{{}, {Parts: 1000, Speed: 1}}, 1},
		{[]Load{{Speed: -1}, {Parts: 7}}, 1},
		{[]Load{{Speed: -1}, {Parts: 3, Speed: 2}, {Parts: 1, Speed: 1}}, 1},
		{[]Load{{Speed: 1}, {Speed: 1}}, 0},
	} {
		if got := Next(c.devices); got != c.want {
			t.Errorf("of %v it is %d, want %d", c.devices, got, c.want)
		}
	}
}

// slowest is the least that a part gets of the device that has it.
func slowest(devices []Load) float64 {
	var shares []float64
	for _, d := range devices {
		if d.Parts > 0 {
			shares = append(shares, d.Speed/float64(d.Parts))
		}
	}
	return slices.Min(shares)
}

// best tries all dealings.
func best(devices []Load, parts int) (most float64) {
	ways := 1
	for range parts {
		ways *= len(devices)
	}
	for way := range ways {
		try := slices.Clone(devices)
		for i := range try {
			try[i].Parts = 0
		}
		for range parts {
			try[way%len(devices)].Parts++
			way /= len(devices)
		}
		most = max(most, slowest(try))
	}
	return most
}

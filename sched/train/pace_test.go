package train

import "testing"

// TestPace: steps are told apart by what went on while they ran, and an epoch's
// first interval is none.
func TestPace(t *testing.T) {
	var p pace
	for epoch := range 3 {
		for step := range 5000 {
			p.step(step)
			p.writing = step%4 == 3 || epoch == 2
		}
	}
	a, b := p.of[0].Times(), p.of[1].Times()
	if a.Count != 2*3750 || b.Count != 2*1249+4999 {
		t.Errorf("%d and %d steps", a.Count, b.Count)
	}
	if a.P50 <= 0 || a.P95 < a.P50 || a.Mean <= 0 {
		t.Errorf("%+v", a)
	}
}

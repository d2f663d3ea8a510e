package lab

import "testing"

// TestTSC: two measurements agree; where there is no constant counter both are 0.
func TestTSC(t *testing.T) {
	a, b := tscKHz(), tscKHz()
	if diff := max(a, b) - min(a, b); diff > a/100 || a > 0 && (a < 100_000 || a > 10_000_000) {
		t.Errorf("the time stamp counter runs at %d and %d kHz", a, b)
	}
}

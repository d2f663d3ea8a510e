package calibrate

import (
	"math"
	"os"
	"testing"
	"time"
)

// What the kernel says is understood, and what it might not say is not taken for idleness.
func TestBusy(t *testing.T) {
	stat := "cpu  100 10 50 1000 20 3 2 5 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
	if got := busyOf([]byte(stat)); got != 170*tick {
		t.Errorf("busy for %v, want %v", got, 170*tick)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu a 2 3 4 5 6 7 8 9"} {
		if got := busyOf([]byte(bad)); got >= 0 {
			t.Errorf("%q: busy for %v, want less than 0", bad, got)
		}
	}
	if text, err := os.ReadFile("/proc/stat"); err != nil || busyOf(text) <= 0 {
		t.Errorf("this machine: %v", err)
	}
	at := time.Now()
	before, after := busy{at, 10 * time.Second}, busy{at.Add(4 * time.Second), 17 * time.Second}
	if got := after.others(before, time.Second); math.Abs(got-1.5) > 1e-9 {
		t.Errorf("others had %v cores, want 1.5", got)
	}
	if got := after.others(before, 8*time.Second); got != 0 {
		t.Errorf("others had %v cores, want none", got)
	}
	if got := after.others(busy{at, -1}, 0); got != -1 {
		t.Errorf("others had %v cores where nobody knows, want -1", got)
	}
}

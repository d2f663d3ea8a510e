package nap

import (
	"testing"
	"time"
)

// BenchmarkRest: how much later than need be a wait ends, whose end nobody tells. Compare Sleep, which
// naps by Go alone from the beginning.
func BenchmarkRest(b *testing.B) {
	sleep := func(waited time.Duration) { time.Sleep(min(max(waited/part, time.Microsecond), longest)) }
	for _, way := range []struct {
		name string
		rest func(time.Duration)
	}{{"Rest", Rest}, {"Sleep", sleep}} {
		for _, long := range []time.Duration{30 * time.Microsecond, 80 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
			b.Run(way.name+"/"+long.String(), func(b *testing.B) {
				late := time.Duration(0)
				for b.Loop() {
					late += waitFor(long, way.rest) - long
				}
				b.ReportMetric(float64(late.Microseconds())/float64(b.N), "us-late")
			})
		}
	}
}

// waitFor is how long a wait for something took that is over after so long.
func waitFor(long time.Duration, rest func(time.Duration)) (waited time.Duration) {
	for begin := time.Now(); waited < long; waited = time.Since(begin) {
		rest(waited)
	}
	return waited
}

package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/member"
)

// starve has every process of a script run for some milliseconds at a time, and wait for
// a processor between, half of mean to three halves of it, and once in a hundred times for
// stall besides; what comes meanwhile it finds when it runs.
func (s *script) starve(rng *rand.Rand, mean, stall time.Duration) {
	windows := map[int][2]time.Duration{}
	s.runs = func(id int, at time.Duration) time.Duration {
		w := windows[id]
		for w[1] <= at {
			w[0] = w[1] + mean/2 + time.Duration(rng.Int64N(int64(mean)+1))
			if rng.IntN(100) == 0 {
				w[0] += stall
			}
			w[1] = w[0] + ms + time.Duration(rng.Int64N(int64(10*ms)))
			windows[id] = w
		}
		return max(at, w[0])
	}
}

// Processes that get a processor now and then only do not cut each other out, and notice
// one that is gone within seconds.
func TestScriptStarved(t *testing.T) {
	seeds, runs := seedtest.Fixed(t, 1), 5 // "within" is near the longest that there can be
	if testing.Short() {
		runs = 2
	}
	for _, of := range []struct{ mean, stall time.Duration }{{30 * ms, 0}, {100 * ms, 0}, {300 * ms, 0}, {700 * ms, 0}, {30 * ms, 1500 * ms}, {100 * ms, time.Second}, {300 * ms, time.Second}} {
		t.Run(fmt.Sprint(of.mean, of.stall), func(t *testing.T) {
			for run := range runs {
				rng := rand.New(rand.NewPCG(seeds.Uint64(), 0))
				s := newScriptOf(t, 4, 2, member.Times{})
				s.run(5 * time.Second)
				began := s.store.Epoch
				s.starve(rng, of.mean, of.stall)
				s.run(2 * time.Minute)
				s.wants(fmt.Sprintf("nobody is cut out: epoch %d, it was %d", s.store.Epoch, began), s.store.Epoch == began)
				s.away[1] = true
				out := s.now
				for s.in(1) && s.now < out+time.Minute {
					s.run(100 * ms)
				}
				t.Logf("run %d: silent for %v before it was out", run, s.now-out)
				s.wants(fmt.Sprintf("server 1 is out within %v", 12*time.Second), s.now-out <= 12*time.Second)
			}
		})
	}
}

package fanintest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestWords holds what docs/fan-in.md says of stragglers and hot workers against
// runs of any seed: words speed up those they are for, and cost nobody.
func TestWords(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("PSRT_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PSRT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, base := range watched() {
		plain, words := base, base
		plain.Seed = rng.Uint64()
		words.Seed, words.Watch = plain.Seed, true
		a, err := Run(plain.Scenario)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(words.Scenario)
		if err != nil {
			t.Fatal(err)
		}
		fail := func(what string) {
			t.Errorf("%s, seed %d: %s:\nwithout %+v\nwith    %+v", base.Name, plain.Seed, what, a, b)
		}
		w, limit := b.Words, 0.97
		if min(a.Steps.Late.N, b.Steps.Late.N) < 40 {
			limit = 1.2 // too few to tell more
		}
		switch {
		case base.Late > 0 && w.First == 0:
			fail("nobody ever went first: the run misses what it is for")
		case b.Steps.Late.Mean > limit*a.Steps.Late.Mean:
			fail("stragglers' pushes are not faster")
		}
		if w.HotOthers > w.Looks/20 { // now and then one is, for a moment
			fail("a worker is named hot that is not")
		}
		if b.Goodput < a.Goodput-0.01 {
			fail("the link carries less")
		}
		if a.Steps.Plain.N > 0 && b.Steps.Plain.Mean > 1.02*a.Steps.Plain.Mean {
			fail("the others' pushes are slower")
		}
		if b.QueueP99 > 1.1*a.QueueP99+1000 || b.PullP99 > 1.1*a.PullP99+1000 {
			fail("small pulls wait longer")
		}
		if a.Steps.Plain.N == 0 && (b.Jain < 0.99 || w.First+w.Passed > 0) {
			fail("where all push without end there is nothing to say")
		}
	}
}

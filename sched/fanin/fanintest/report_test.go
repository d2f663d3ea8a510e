package fanintest

import (
	"flag"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the figures of docs/fan-in.md anew")

const (
	doc   = "../../../docs/fan-in.md"
	begin = "<!-- figures: go test ./sched/fanin/fanintest -run TestFanInReport -rewrite -->\n"
	end   = "<!-- end of figures -->\n"
)

// TestFanInReport makes the figures, holds them against what the rule promises
// and against what the document says.
func TestFanInReport(t *testing.T) {
	crowds, err := Crowds()
	if err != nil {
		t.Fatal(err)
	}
	troubles, err := Troubles()
	if err != nil {
		t.Fatal(err)
	}
	watched, err := Watched()
	if err != nil {
		t.Fatal(err)
	}
	promises(t, crowds)
	for _, r := range troubles {
		if r.Goodput < 0.88 || r.Jain < 0.99 || r.PullP99 > r.PullBoundNanos() || r.Dropped > 0 {
			t.Errorf("%s: %+v", r.Name, r.Result)
		}
		if r.Hot > 0 && math.Abs(r.HotShare-1) > 0.02 {
			t.Errorf("%s: a hot worker has %.3f of a plain one's share", r.Name, r.HotShare)
		}
	}
	figures := Markdown(crowds, troubles) + WordsMarkdown(watched)
	t.Log("\n" + figures)
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	written, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the lines around its figures: %s%s", doc, begin, end)
	}
	if *rewrite {
		if err := os.WriteFile(doc, []byte(before+begin+figures+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	agree(t, written, figures)
}

func promises(t *testing.T, crowds []Row) {
	for _, r := range crowds {
		fail := func(what string) {
			t.Errorf("%s, %d workers at %.0f Gb/s: %s: %+v", r.Mode, r.Workers, r.Gbps, what, r.Result)
		}
		switch r.Mode {
		case Granted:
			chunkNanos := float64(r.Chunk) / (r.Gbps / 8)
			if r.Goodput < 0.98 {
				fail("goodput is below 0.98")
			}
			if r.Jain < 0.99 {
				fail("Jain's index is below 0.99")
			}
			if r.QueueP99 > 2*chunkNanos {
				fail("more than two chunks wait in the switch at p99")
			}
			if r.PullP99 > r.PullBoundNanos() {
				fail("pulls wait for more than k + 1 chunks")
			}
			if r.Dropped > 0 {
				fail("packets were dropped")
			}
		case Blast:
			if r.Workers >= 128 && r.Goodput > 0.8 {
				fail("no collapse: the model has lost what the rule is for")
			}
		case Pause:
			if r.Dropped > 0 || r.QueueP50 < 30e3 {
				fail("a lossless network that does not queue is no such network")
			}
		}
	}
}

// agree compares the tables, numbers within 2 %: compilers may fuse a
// multiplication and an addition, and a float that differs in its last bit can
// swap two events.
func agree(t *testing.T, written, made string) {
	w, m := strings.Fields(written), strings.Fields(made)
	if len(w) != len(m) {
		t.Fatalf("%s has %d words of figures, they are now %d; make them anew by -rewrite", doc, len(w), len(m))
	}
	for i := range w {
		a, err := strconv.ParseFloat(w[i], 64)
		b, err2 := strconv.ParseFloat(m[i], 64)
		if err != nil || err2 != nil {
			if w[i] != m[i] {
				t.Errorf("%s says %q, it is now %q; make the figures anew by -rewrite", doc, w[i], m[i])
			}
		} else if math.Abs(a-b) > 0.02*math.Abs(b)+0.011 {
			t.Errorf("%s says %v near %q, it is now %v; make the figures anew by -rewrite", doc, a, strings.Join(w[max(0, i-8):i], " "), b)
		}
	}
}

func TestSameSeedSameResult(t *testing.T) {
	for _, mode := range []Mode{Granted, Blast, Pause} {
		s := Base(mode, 16, 100)
		s.MeasureNanos = 2e6
		a, err := Run(s)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := Run(s); a != b {
			t.Errorf("%s: %+v, then %+v", mode, a, b)
		}
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{
		{[]float64{3, 3, 3}, 1},
		{[]float64{4, 0, 0, 0}, 0.25},
		{[]float64{2, 1}, 0.9},
		{nil, 1},
	} {
		if got := Jain(c.v); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.v, got, c.want)
		}
	}
}

// One worker alone is the check of the model itself: the line is full and no
// more than a packet queues, whichever way it sends.
func TestOneWorker(t *testing.T) {
	for _, mode := range []Mode{Granted, Pause} {
		r, err := Run(Base(mode, 1, 100))
		if err != nil {
			t.Fatal(err)
		}
		if r.QueueP50 > 0 || r.QueueP99 > packetBytes/(100.0/8) || r.Goodput < 0.98 {
			t.Errorf("%s: %+v", mode, r)
		}
	}
}

package fanin

import (
	"errors"
	"strings"
	"testing"
)

func TestWindow(t *testing.T) {
	for _, c := range []struct{ rate, rtt, chunk, k int64 }{
		{50_000_000_000, 6_000, 128 << 10, 4}, // 400 Gb/s
		{50_000_000_000, 0, 128 << 10, 1},
		{12_500_000_000, 6_000, 120 << 10, 2}, // 125000 bytes in 10 us
		{1_250_000_000, 50_000, 12 << 10, 7},
		{125_000_000, 100_000, 4 << 10, 5},
		{-1, 100_000, 4 << 10, 1},
		{1 << 62, 1 << 62, 128 << 10, 762941}, // 100 GB/s, 1 s
	} {
		chunk := Chunk(c.rate)
		if k := Chunks(c.rate, c.rtt, chunk); chunk != c.chunk || k != c.k {
			t.Errorf("rate %d, rtt %d: %d x %d, want %d x %d", c.rate, c.rtt, k, chunk, c.k, c.chunk)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		name string
	}{
		{Config{}, "Workers"},
		{Config{Workers: 1 << 20}, "Workers"},
		{Config{Workers: 1, Transfers: -1}, "Transfers"},
		{Config{Workers: 1, MaxBytes: 4096}, "MaxBytes"},
		{Config{Workers: 1, MaxRate: 1}, "MaxRate"},
		{Config{Workers: 1, BurstBytes: 1}, "BurstBytes"},
		{Config{Workers: 1, LeastChunk: MaxChunk + 1}, "LeastChunk"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), "Config."+c.name) {
			t.Errorf("%+v: %v, want one about %s", c.cfg, err, c.name)
		}
	}
}

func TestDuplicate(t *testing.T) {
	p, _ := New(Config{Workers: 1})
	if err := p.Announce(0, 7, 1<<20, Push, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Announce(0, 7, 1<<20, Pull, 0); !errors.Is(err, ErrDuplicate) {
		t.Fatal(err)
	}
}

// link is a network for one policy: a pipe of a rate and a round trip, in which
// each grant comes when those before it have.
type link struct {
	p         *Policy
	rate, rtt int64
	now, free int64
	onWay     []landing // by time: the pipe keeps the order
	max       int64     // most on the way
	behind    int64     // nanoseconds of answers that each grant waits behind
}

type landing struct {
	g  Grant
	at int64
}

// run lets workers push without end for so long.
func (l *link) run(t *testing.T, workers int, nanos int64) (landed int64) {
	end := l.now + nanos
	grant := func() {
		for _, g := range l.p.Grants(l.now, nil) {
			l.free = max(l.free, l.now+l.rtt+l.behind) + g.Bytes*1e9/l.rate
			l.onWay = append(l.onWay, landing{g, l.free})
		}
		l.max = max(l.max, l.p.Outstanding())
	}
	for w := range workers {
		for id := range uint64(2) {
			if err := l.p.Announce(w, id, 1<<24, Push, l.now); err != nil && !errors.Is(err, ErrDuplicate) {
				t.Fatal(err)
			}
		}
	}
	for grant(); l.now < end; grant() {
		next := l.p.Deadline()
		if len(l.onWay) > 0 {
			next = min(next, l.onWay[0].at)
		}
		l.now = max(l.now, next)
		for len(l.onWay) > 0 && l.onWay[0].at <= l.now {
			g := l.onWay[0].g
			l.onWay = l.onWay[1:]
			done, err := l.p.Arrived(g.Worker, g.ID, g.Bytes, l.now)
			if err != nil {
				t.Fatal(err)
			}
			if landed += g.Bytes; done {
				if err := l.p.Announce(g.Worker, g.ID, 1<<24, Push, l.now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return landed
}

// Both estimates find the link from guesses that are wrong by far, and again
// when it changes.
func TestEstimates(t *testing.T) {
	for _, c := range []struct{ rate, rtt, guessRate, guessRTT, least int64 }{
		{50e9, 6_000, 1.25e9, 50_000, 0},
		{50e9, 6_000, 50e9, 6_000, 0},
		{1.25e9, 100_000, 50e9, 2_000, 0},
		{3e9, 40_000, 1e8, 1_000, 0},
		{125e6, 200_000, 1.25e9, 1_000_000, 0},
		{125e6, 200_000, 1.25e9, 1_000_000, 16 << 10},
	} {
		p, err := New(Config{Workers: 8, Rate: c.guessRate, RTTNanos: c.guessRTT, LeastChunk: c.least})
		if err != nil {
			t.Fatal(err)
		}
		l := &link{p: p, rate: c.rate, rtt: c.rtt}
		check := func() {
			t.Helper()
			l.run(t, 8, 300e6)
			landed := l.run(t, 8, 100e6)
			if want := l.rate / 10; landed < want*98/100 {
				t.Errorf("%+v: %d bytes in 100 ms, the link carries %d; %+v", c, landed, want, p.Stats())
			}
			s := p.Stats()
			chunkNanos := s.ChunkBytes * 1e9 / l.rate
			if want := max(Chunk(s.Rate), c.least); s.ChunkBytes != want {
				t.Errorf("%+v: chunks of %d bytes at %d bytes/s, want %d", c, s.ChunkBytes, s.Rate, want)
			}
			if s.Rate < l.rate*97/100 || s.Rate > l.rate*103/100 || s.RTTNanos < l.rtt || s.RTTNanos > l.rtt+chunkNanos*11/10+MinChunk*1e9/l.rate {
				t.Errorf("%+v: estimates %d bytes/s, %d ns", c, s.Rate, s.RTTNanos)
			}
		}
		check()
		l.rate, l.rtt = l.rate/3, l.rtt*2
		l.run(t, 8, 1500e6) // the median of nine drains
		check()
	}
}

// While answers fill the way out, grants wait behind them: the way in stays full if the
// policy is told, and what is on its way is no more than that takes.
func TestAnswersOnTheirWay(t *testing.T) {
	const rate, queue = 125e6, 200 << 10
	for _, told := range []bool{false, true} {
		p, err := New(Config{Workers: 4, Rate: rate, RTTNanos: 200_000})
		if err != nil {
			t.Fatal(err)
		}
		l := &link{p: p, rate: rate, rtt: 200_000}
		l.run(t, 4, 300e6)
		before := p.Window()
		for range 20 { // a pull's values are on their way, and then they are not
			l.behind = queue * 1e9 / rate
			if told {
				p.Answers(queue)
			}
			landed := l.run(t, 4, 100e6)
			if want := int64(rate / 10); told && landed < want*94/100 || !told && landed > want/2 {
				t.Errorf("told: %v, %d bytes in 100 ms, the link carries %d", told, landed, want)
			}
			l.behind = 0
			if told {
				p.Answers(-queue)
			}
			l.run(t, 4, 100e6)
		}
		if most := before + queue + MinChunk; l.max > most {
			t.Errorf("told: %v, %d bytes were on their way, at most %d", told, l.max, most)
		}
		if s := p.Stats(); s.Rate > rate*103/100 || s.RTTNanos > 400_000 {
			t.Errorf("told: %v, estimates %d bytes/s, %d ns", told, s.Rate, s.RTTNanos)
		}
	}
}

// A receiver in steady use allocates nothing.
func TestNoAllocations(t *testing.T) {
	p, err := New(Config{Workers: 64})
	if err != nil {
		t.Fatal(err)
	}
	step := stepper(t, p, 64)
	if n := testing.AllocsPerRun(10_000, step); n != 0 {
		t.Fatalf("%v allocations a step", n)
	}
}

// stepper lands the oldest grant and makes the next, 2 us later.
func stepper(t testing.TB, p *Policy, workers int) func() {
	var now int64
	grants := make([]Grant, 0, 1<<14)
	var scratch [1 << 10]Grant
	for w := range workers {
		if err := p.Announce(w, 1, 1<<20, Push, now); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		now += 2000
		if len(grants) > 0 {
			g := grants[0]
			copy(grants, grants[1:])
			grants = grants[:len(grants)-1]
			done, err := p.Arrived(g.Worker, g.ID, g.Bytes, now)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				if err := p.Announce(g.Worker, g.ID, 1<<20, Push, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		grants = append(grants, p.Grants(now, scratch[:0])...)
	}
}

// BenchmarkGrant is the cost of a chunk: one arrival and one grant.
func BenchmarkGrant(b *testing.B) {
	p, err := New(Config{Workers: 1024, Rate: 12_500_000_000})
	if err != nil {
		b.Fatal(err)
	}
	step := stepper(b, p, 1024)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}

package probe

import (
	"errors"
	"math"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

func from(host byte, port uint16) Source {
	return Source{Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), port), Interface: "v0"}
}

func byHost(s Source) (int, bool) {
	host := int(s.Peer.Addr().As4()[3])
	return host, host < 100
}

// TestView plays scripts: a reading a second.
func TestView(t *testing.T) {
	type reading []Sample
	count := func(host byte, port uint16, n uint64) Sample {
		return Sample{from(host, port), Count{Bytes: n, Messages: n / 10}}
	}
	for name, c := range map[string]struct {
		script         []reading
		totals         map[int]uint64
		last           map[int]float64
		straggler, hot int
		sources        int
	}{
		"growth":           {script: []reading{{count(1, 1, 100)}, {count(1, 1, 400)}}, totals: map[int]uint64{1: 400}, last: map[int]float64{1: 300}, sources: 1},
		"two sources":      {script: []reading{{}, {count(1, 1, 100), count(1, 2, 50)}}, totals: map[int]uint64{1: 150}, last: map[int]float64{1: 150}, sources: 2},
		"over":             {script: []reading{{count(1, 1, 100)}, {count(1, 1, 130)}, {}}, totals: map[int]uint64{1: 130}, last: map[int]float64{1: 0}},
		"over and back":    {script: []reading{{count(1, 1, 100)}, {}, {count(1, 1, 120)}}, totals: map[int]uint64{1: 220}, last: map[int]float64{1: 120}, sources: 1},
		"begun anew":       {script: []reading{{count(1, 1, 100)}, {count(1, 1, 40)}}, totals: map[int]uint64{1: 140}, last: map[int]float64{1: 40}, sources: 1},
		"nobody's":         {script: []reading{{}, {count(200, 1, 70)}}, totals: map[int]uint64{Nobody: 70}, last: map[int]float64{Nobody: 70}, sources: 1},
		"straggler":        {script: []reading{{}, {count(1, 1, 1000), count(2, 1, 1000), count(3, 1, 240)}}, totals: map[int]uint64{1: 1000, 2: 1000, 3: 240}, straggler: 3, sources: 3},
		"just none":        {script: []reading{{}, {count(1, 1, 1000), count(2, 1, 1000), count(3, 1, 250)}}, totals: map[int]uint64{1: 1000, 2: 1000, 3: 250}, sources: 3},
		"hot":              {script: []reading{{}, {count(1, 1, 1000), count(2, 1, 1000), count(3, 1, 4010)}}, totals: map[int]uint64{3: 4010}, hot: 3, sources: 3},
		"two are no crowd": {script: []reading{{}, {count(1, 1, 1000), count(2, 1, 1)}}, totals: map[int]uint64{2: 1}, sources: 2},
		"idle":             {script: []reading{{}, {count(1, 1, 0), count(2, 1, 0), count(3, 1, 5)}}, totals: map[int]uint64{3: 5}, sources: 3},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := NewView(ViewConfig{Workers: byHost})
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range c.script {
				if err := v.Update(int64(i)*int64(time.Second), &Reading{Samples: r}); err != nil {
					t.Fatal(err)
				}
			}
			f := v.FanIn()
			if len(f.Sources) != c.sources {
				t.Errorf("%d sources, want %d", len(f.Sources), c.sources)
			}
			workers := map[int]WorkerFlow{}
			var sum uint64
			for _, w := range f.Workers {
				workers[w.Worker] = w
				sum += w.Total.Bytes
				if w.Straggler != (w.Worker == c.straggler) || w.Hot != (w.Worker == c.hot) {
					t.Errorf("worker %d: straggler %v, hot %v", w.Worker, w.Straggler, w.Hot)
				}
			}
			if sum != f.All.Total.Bytes {
				t.Errorf("workers have %d bytes, all %d", sum, f.All.Total.Bytes)
			}
			for w, want := range c.totals {
				if got := workers[w].Total.Bytes; got != want {
					t.Errorf("worker %d has %d bytes, want %d", w, got, want)
				}
			}
			for w, want := range c.last {
				if got := workers[w].Last.Bytes; math.Abs(got-want) > 1e-9 {
					t.Errorf("worker %d: %g B/s, want %g", w, got, want)
				}
			}
		})
	}
}

// TestSmooth: the smoothed rate depends on time, not on how often it is read.
func TestSmooth(t *testing.T) {
	var rates [2]float64
	for i, steps := range []int{1, 10} {
		v, err := NewView(ViewConfig{})
		if err != nil {
			t.Fatal(err)
		}
		update := func(at time.Duration, n uint64) {
			t.Helper()
			if err := v.Update(int64(at), &Reading{Samples: []Sample{{from(1, 1), Count{Bytes: n}}}}); err != nil {
				t.Fatal(err)
			}
		}
		update(0, 0)
		update(time.Second, 1000)
		for k := 1; k <= steps; k++ { // a second of three times that
			update(time.Second+time.Second*time.Duration(k)/time.Duration(steps), 1000+3000*uint64(k)/uint64(steps))
		}
		rates[i] = v.FanIn().All.Rate.Bytes
	}
	want := 1000/math.E + 3000*(1-1/math.E)
	for _, r := range rates {
		if math.Abs(r-want) > 1e-6 {
			t.Errorf("rate %g, want %g", r, want)
		}
	}
}

func TestViewRefuses(t *testing.T) {
	if _, err := NewView(ViewConfig{Hot: 0.5}); err == nil {
		t.Error("a hot worker below the median is taken")
	}
	v, err := NewView(ViewConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Update(5, &Reading{}); err != nil {
		t.Fatal(err)
	}
	if err := v.Update(5, &Reading{}); err == nil {
		t.Error("a reading of the same moment is taken")
	}
}

// TestConnections: what walks and endings tell, in every order they can.
func TestConnections(t *testing.T) {
	s := newConnections(func(connection) string { return "v0" })
	c := func(cookie, n uint64, closed bool) connection {
		return connection{cookie: cookie, peer: from(1, 1).Peer, count: Count{Bytes: n}, closed: closed}
	}
	for i, step := range []struct {
		seen []connection
		want uint64
		none bool
	}{
		{seen: []connection{c(1, 10, false)}, want: 10},
		{seen: []connection{c(1, 20, false), c(1, 25, true)}, want: 25}, // walked, then closed
		{none: true}, // reported once
		{seen: []connection{c(2, 5, false)}, want: 5},                // the port used again
		{seen: []connection{c(2, 6, true), c(3, 1, false)}, want: 7}, // and again
		{seen: []connection{c(3, 4, false)}, want: 10},               // goes on, no byte twice
		{want: 10}, // a walk that missed it
		{want: 10}, // it has ended unseen
		{none: true},
	} {
		var r Reading
		s.begin()
		for _, c := range step.seen {
			s.see(c)
		}
		s.report(&r)
		if step.none != (len(r.Samples) == 0) || !step.none && r.Samples[0].Bytes != step.want {
			t.Fatalf("step %d: %v, want %d", i, r.Samples, step.want)
		}
	}
	if s.missed != 1 {
		t.Errorf("%d connections ended unseen, want 1", s.missed)
	}
}

func TestDiagnose(t *testing.T) {
	var m *MissingError
	err := wanted{what: "metering", kernel: "Linux 5.12"}.diagnose(syscall.EINVAL)
	if !errors.As(err, &m) || !errors.Is(err, ErrMissing) || !errors.Is(err, syscall.EINVAL) || m.What == "" || m.Remedy == "" {
		t.Errorf("EINVAL gives %v", err)
	}
	if err := (wanted{what: "metering", kernel: "Linux 5.12"}.diagnose(syscall.ENOMEM)); errors.Is(err, ErrMissing) {
		t.Errorf("no memory passes for a missing feature: %v", err)
	}
}

func TestCounters(t *testing.T) {
	m := Counters(func(r *Reading) { r.Samples = append(r.Samples, Sample{from(1, 1), Count{Bytes: 7}}) })
	r := Reading{Lost: 3}
	for range 2 {
		if err := m.Read(&r); err != nil || len(r.Samples) != 1 || r.Lost != 0 {
			t.Fatalf("%v, %v", r, err)
		}
	}
}

func FuzzDecodeConnection(f *testing.F) {
	f.Add(make([]byte, connectionBytes))
	f.Add(make([]byte, connectionBytes-1))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, rest, err := decodeConnection(b)
		if (err != nil) != (len(b) < connectionBytes) || err == nil && len(rest) != len(b)-connectionBytes {
			t.Errorf("%d bytes: %d are left, %v", len(b), len(rest), err)
		}
	})
}

package codec

import (
	"context"
	"errors"
	"strings"
	"testing"

	"psrt/bench/report"
)

func small() Config { return Config{Keys: 100, Volume: minVolume, Rounds: 2, Seed: 7} }

func TestRun(t *testing.T) {
	var sums []string
	for range 2 {
		r, err := Run(t.Context(), small())
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != 42 || r.Suite != "codec" || r.Version != report.Version {
			t.Fatalf("%d rows of suite %q", len(r.Rows), r.Suite)
		}
		all := ""
		for i, row := range r.Rows {
			if row.Bandwidth.Avg <= 0 || row.Bandwidth.Rate <= 0 || row.Limit <= 0 || row.Ratio <= 0 || i < 14 && row.Iterations != 2*max(8, minVolume/row.Bytes) {
				t.Errorf("%+v %+v", row, row.Bandwidth)
			}
			if i%2 == 1 && i < 14 && row.Checksum != r.Rows[i-1].Checksum {
				t.Errorf("%s has checksum %s, its encoding %s", row.Op, row.Checksum, r.Rows[i-1].Checksum)
			}
			all += row.Checksum
		}
		sums = append(sums, all)
		notes := strings.Join(r.Notes, "\n")
		for _, says := range []string{"keys a second: pull with keys, encode", "allocations a message: request, encode 0.00"} {
			if !strings.Contains(notes, says) {
				t.Errorf("no %q in %s", says, notes)
			}
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("the same seed gave checksums %s and %s", sums[0], sums[1])
	}
}

// Every byte that is damaged is seen by a decoder, the comparison of fields, or
// the sum of what was decoded.
func TestDamage(t *testing.T) {
	c := small()
	for _, k := range kinds(&c) {
		m, err := newMeasured(&c, &k)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.decode(m.n); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		slot := m.ring.slot(3)
		for i := range slot {
			if i >= 128 && i%97 != 0 && i < len(slot)-8 { // within a long payload
				continue
			}
			slot[i] ^= 0x10
			err := m.decode(m.n)
			if err == nil || k.f.equal(m.ring, 3) || m.ring.sum() == m.sum {
				t.Fatalf("%s: byte %d damaged: %v", k.name, i, err)
			}
			slot[i] ^= 0x10
		}
		if err := m.decode(m.n); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
	}
}

// worse is a format whose decoder or encoder is wrong.
type worse struct {
	format
	blind bool
}

func (w worse) encode(r *ring, n int) error {
	err := w.format.encode(r, n)
	if !w.blind && n > r.slots {
		r.slot(1)[20] ^= 1
	}
	return err
}

func (w worse) equal(r *ring, slot int) bool {
	return w.format.equal(r, slot) && !(w.blind && slot == 5)
}

func TestWrong(t *testing.T) {
	c := small()
	k := kinds(&c)[0]
	k.f = worse{k.f, true}
	if _, err := newMeasured(&c, &k); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("message 5: %v", err)
	}
	k = kinds(&c)[0]
	k.f = worse{k.f, false}
	m, err := newMeasured(&c, &k)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.loop((*measured).encode, true)(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "slots sum up") {
		t.Errorf("wrong bytes: %v", err)
	}
	// The limit is held to its bytes, too.
	m.from.slot(2)[0]++
	if _, err := m.loop((*measured).copy, false)(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "slots sum up") {
		t.Errorf("wrong copy: %v", err)
	}
}

func TestInterrupted(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := Run(ctx, small()); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestWords(t *testing.T) {
	v, want := []uint64{}, uint64(0)
	for i := range uint64(23) {
		v, want = append(v, i*i), want+i*i
		if got := words(v); got != want {
			t.Fatalf("%d words: %d, want %d", len(v), got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"0 keys":     func(c *Config) { c.Keys = 0 },
		"fit a slot": func(c *Config) { c.Keys = maxKeys + 1 },
		"-5 bytes":   func(c *Config) { c.Volume = -5 },
		"0 rounds":   func(c *Config) { c.Rounds = 0 },
	} {
		c := small()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	c := small()
	c.Keys = maxKeys
	if _, err := Run(t.Context(), c); err != nil {
		t.Errorf("the most keys: %v", err)
	}
}

package codec

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
)

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // for the CPU time of this loop alone
	defer runtime.UnlockOSThread()
	out := &report.Report{Version: report.Version, Suite: "codec", Transport: "none", Time: time.Now(), Seed: cfg.Seed, Machine: report.ThisMachine()}
	var speeds, allocations []string
	for _, k := range kinds(&cfg) {
		m, err := newMeasured(&cfg, &k)
		if err != nil {
			return nil, err
		}
		for _, way := range []struct {
			name string
			do   func(*measured, int) error
		}{{"encode", (*measured).encode}, {k.decodes, (*measured).decode}} {
			game := turns.Game{Op: k.name + ", " + way.name, Bytes: k.size, Messages: m.n, Rounds: cfg.Rounds,
				Ours: m.loop(way.do, true), Limit: m.loop((*measured).copy, false)}
			m.allocated = 0
			row, err := game.Play(ctx)
			if err != nil {
				return nil, err
			}
			row.Checksum = fmt.Sprintf("%08x", m.sum)
			out.Rows = append(out.Rows, row)
			allocations = append(allocations, fmt.Sprintf("%s %.2f", row.Op, float64(m.allocated)/float64(m.n)/float64(cfg.Rounds+1)))
			if k.keys > 0 {
				speeds = append(speeds, fmt.Sprintf("%s %.0f M", row.Op, row.Bandwidth.Rate*float64(k.keys)))
			}
		}
	}
	rows, err := compressions(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	out.Rows = append(out.Rows, rows...)
	out.Notes = notes(&cfg, speeds, allocations)
	return out, nil
}

// measured is one format with its ring, and two rings for the limit.
type measured struct {
	kind     *kind
	n        int // messages of a round
	ring     *ring
	from, to *ring
	sum      uint32 // of the ring
	want     uint64 // of the messages of a round
	// allocated counts the allocations of all rounds.
	allocated uint64
}

func newMeasured(c *Config, k *kind) (*measured, error) {
	m := &measured{kind: k, n: max(k.slots, c.Volume/k.size)}
	for _, r := range []**ring{&m.ring, &m.from, &m.to} {
		*r = newRing(k.slots, k.stride, k.size)
	}
	if err := k.f.encode(m.ring, k.slots); err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	for i := range k.slots {
		if !k.f.equal(m.ring, i) {
			return nil, fmt.Errorf("codec: %s: message %d is decoded as another than was encoded", k.name, i)
		}
		times := m.n / k.slots
		if i < m.n%k.slots {
			times++
		}
		m.want += uint64(times) * k.f.want(i)
	}
	m.sum = m.ring.sum()
	copy(m.from.b, m.ring.b)
	return m, nil
}

func (m *measured) encode(n int) error { return m.kind.f.encode(m.ring, n) }

func (m *measured) decode(n int) error {
	sum, err := m.kind.f.decode(m.ring, n)
	if err == nil && sum != m.want {
		err = fmt.Errorf("codec: %d messages decoded add up to %#x, those encoded to %#x", n, sum, m.want)
	}
	return err
}

func (m *measured) copy(n int) error {
	m.to.copyFrom(m.from, n)
	return nil
}

// loop plays one round, then looks at the ring.
func (m *measured) loop(do func(*measured, int) error, count bool) turns.Loop {
	return func(context.Context, int) (turns.Took, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu, start := turns.ThreadCPU(), time.Now()
		err := do(m, m.n)
		took := turns.Took{Wall: time.Since(start).Seconds(), CPU: turns.ThreadCPU() - cpu}
		runtime.ReadMemStats(&after)
		written := m.ring
		if count {
			m.allocated += after.Mallocs - before.Mallocs
		} else {
			written = m.to
		}
		if err == nil && written.sum() != m.sum {
			err = fmt.Errorf("codec: the slots sum up to %08x, want %08x", written.sum(), m.sum)
		}
		return took, err
	}
}

func notes(c *Config, speeds, allocations []string) []string {
	return []string{
		"limit: memcpy of as many bytes between two rings of slots of the same shape; what is read in place was not copied, and can be faster",
		fmt.Sprintf("pull with keys: %d keys behind the request; push by ticket: gradients of %d rows of %d floats and no keys", c.Keys, ticketRows, ticketDim),
		"fp16 and int8: gradients compressed as --compress does; bytes are those of the floats, the limit a memcpy of them; read alone is the ceiling of an encoder, whatever it writes, and write alone (zeros) that of a decoder; the memcpy of the C library may be slower than the limit, which is Go's",
		"the control frame goes through a connection that is memory; not measured: the JSON inside, for which no step waits",
		turns.Note,
		"keys a second: " + strings.Join(speeds, "; "),
		"allocations a message: " + strings.Join(allocations, "; "),
	}
}

package codec

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/csrc/codec"
	"psrt/csrc/kernels"
	"psrt/rdma/mem"
)

// shape is gradients as they are compressed: so many bytes of floats, in groups.
type shape struct {
	bytes, width int
}

// shapes are what is measured: more than all caches hold, and what the second one
// holds; the rows of a table, and the groups of a dense vector.
func shapes(c *Config) []shape {
	return []shape{{c.Volume * 2, 16}, {c.Volume * 2, 1024}, {inCache, 16}, {inCache, 1024}}
}

// inCache is what the second cache of a core holds, with a copy of it.
const inCache = 256 << 10

// floats is one shape with what its codes become.
type floats struct {
	shape
	src, dst, back []float32
	half, exps     []byte
	bytes          []byte
	scales         []float32
	read           float32 // what reading alone gave
	times          int
}

func newFloats(c *Config, s shape) *floats {
	n := s.bytes / 4
	groups := codec.Groups(n, s.width)
	g := &floats{shape: s, src: make([]float32, n), dst: make([]float32, n), back: make([]float32, n),
		half: make([]byte, 2*n), exps: make([]byte, groups), bytes: make([]byte, n), scales: make([]float32, groups),
		times: max(1, c.Volume*2/s.bytes)}
	r := rand.New(rand.NewPCG(c.Seed, 1))
	for i := range g.src {
		g.src[i] = float32(r.NormFloat64()) * 1e-4
	}
	codec.EncodeHalf(g.half, g.exps, g.src, s.width)
	codec.EncodeByte(g.bytes, g.scales, g.src, s.width)
	return g
}

// codings are the loops: each with the sum of what it must make.
func (g *floats) codings() []coding {
	sum := func(v []float32) uint32 { return crc32.ChecksumIEEE(mem.Bytes(v)) }
	halves := func() uint32 { return crc32.Update(crc32.ChecksumIEEE(g.half), crc32.IEEETable, g.exps) }
	bytes := func() uint32 { return crc32.Update(crc32.ChecksumIEEE(g.bytes), crc32.IEEETable, mem.Bytes(g.scales)) }
	back := func() uint32 { return sum(g.back) }
	return []coding{
		{"read alone, as much as an encoder reads", func() { g.read = kernels.Scan(g.src) }, func() uint32 { return math.Float32bits(g.read) }},
		{"write alone, as much as a decoder writes", func() { clear(g.back) }, back},
		{"memcpy of the C library", func() { codec.Memcpy(g.back, g.src) }, back},
		{"fp16, encode", func() { codec.EncodeHalf(g.half, g.exps, g.src, g.width) }, halves},
		{"fp16, decode", func() { codec.DecodeHalf(g.back, g.half, g.exps, g.width) }, back},
		{"int8, encode", func() { codec.EncodeByte(g.bytes, g.scales, g.src, g.width) }, bytes},
		{"int8, decode", func() { codec.DecodeByte(g.back, g.bytes, g.scales, g.width) }, back},
	}
}

type coding struct {
	name string
	do   func()
	sum  func() uint32 // of what it made
}

// compressions plays the codecs of gradients, each beside a memcpy of the floats.
func compressions(ctx context.Context, cfg *Config) (rows []report.Row, err error) {
	for _, s := range shapes(cfg) {
		g := newFloats(cfg, s)
		for _, c := range g.codings() {
			c.do()
			want := c.sum()
			time := func(do func(), check func() error) turns.Loop {
				return func(context.Context, int) (turns.Took, error) {
					cpu, start := turns.ThreadCPU(), time.Now()
					for range g.times {
						do()
					}
					took := turns.Took{Wall: time.Since(start).Seconds(), CPU: turns.ThreadCPU() - cpu}
					return took, check()
				}
			}
			game := turns.Game{Op: fmt.Sprintf("%s, groups of %d", c.name, s.width), Bytes: s.bytes, Messages: g.times, Rounds: cfg.Rounds,
				Ours: time(c.do, func() error {
					if got := c.sum(); got != want {
						return fmt.Errorf("codec: what was made sums up to %08x, want %08x", got, want)
					}
					return nil
				}),
				Limit: time(func() { copy(g.dst, g.src) }, func() error {
					if g.dst[0] != g.src[0] || g.dst[len(g.dst)-1] != g.src[len(g.src)-1] {
						return fmt.Errorf("codec: the copy of %d bytes is another", s.bytes)
					}
					return nil
				})}
			row, err := game.Play(ctx)
			if err != nil {
				return nil, err
			}
			row.Checksum = fmt.Sprintf("%08x", want)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

//go:build cgo

package gpu

import (
	"math/rand/v2"
	"os"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/kernels"
	"psrt/csrc/ptx"
)

// BenchmarkCard is what the kernels reach beside copies on the same card, in turns: a
// gather and an update of rows of 64 floats among many, and filling rows from the
// host. By the fake driver the figures say nothing.
func BenchmarkCard(b *testing.B) {
	rows, library := 1<<20, ""
	if os.Getenv("PSRT_GPU") == "" {
		rows, library = 1<<10, cudatest.Library(b)
	}
	c := newCard(b, library, rows)
	copyMS := func(bytes int) float64 {
		return c.time(b, func() error { return c.stream.Within(c.flat, c.rows, bytes) })
	}
	const width = 64
	batch := ptx.Batch{Rows: uint64(c.rows), Flat: uint64(c.flat), IDs: uint64(c.ids), Stride: width, Count: c.count, N: rows, Width: width}
	b.Run("gather", func(b *testing.B) {
		var ratio float64
		for b.Loop() {
			limit := copyMS(4 * width * rows)
			ratio = limit / c.time(b, func() error { return c.launch(ptx.GatherRows, rows, batch.Append(nil)) })
		}
		b.ReportMetric(ratio, "of-a-copy")
	})
	b.Run("update", func(b *testing.B) {
		u, rule := batch, kernels.Rule{Kind: kernels.AdaGrad, LR: 0.01, Eps: 1e-8}
		u.Stride, u.Count = 2*width, c.count/2
		c.name(b, u.Count, rows)
		var ratio float64
		for b.Loop() { // a row read and written, its gradient read: 5 x width, and a copy of 2.5 x width reads and writes as much
			limit := copyMS(4*width*rows) * 2.5
			ratio = limit / c.time(b, func() error { return c.launch(ptx.UpdateRows, rows, u.AppendUpdate(nil, &rule, uint64(c.refused))) })
		}
		b.ReportMetric(ratio, "of-a-copy")
	})
	b.Run("fill", func(b *testing.B) {
		c.name(b, c.count, rows)
		host, err := c.dev.HostAlloc(4 * width * rows)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.dev.HostFree(host) }()
		var ratio float64
		for b.Loop() {
			limit := c.time(b, func() error { return c.stream.ToDevice(c.flat, host) })
			ratio = limit / c.time(b, func() error {
				const pieces = 16
				for i := range pieces {
					piece := batch
					piece.N = rows / pieces
					at := 4 * width * piece.N * i
					piece.Flat += uint64(at)
					piece.IDs += uint64(4 * piece.N * i)
					if err := c.stream.ToDevice(c.flat.Add(at), host[at:at+4*width*piece.N]); err != nil {
						return err
					}
					if err := c.launch(ptx.PutRows, piece.N, piece.Append(nil)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		b.ReportMetric(ratio, "of-a-pinned-copy")
	})
}

type card struct {
	dev                      *cuda.Device
	stream                   *cuda.Stream
	module                   *cuda.Module
	first, last              *cuda.Event
	rows, flat, ids, refused cuda.Ptr
	count                    int
}

// newCard has four times as many rows as a batch names.
func newCard(b *testing.B, library string, batch int) *card {
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	d := &Device{Library: library}
	dev, err := d.open()
	must(err)
	b.Log(d.Name())
	c := &card{dev: dev, count: 4 * batch}
	c.stream, err = dev.NewStream()
	must(err)
	c.module, err = dev.Module(ptx.Text)
	must(err)
	c.first, err = dev.NewEvent(true)
	must(err)
	c.last, err = dev.NewEvent(true)
	must(err)
	c.rows, err = dev.Alloc(4 * 64 * c.count)
	must(err)
	c.flat, err = dev.Alloc(4 * 64 * batch)
	must(err)
	c.ids, err = dev.Alloc(4 * batch)
	must(err)
	c.refused, err = dev.Alloc(8)
	must(err)
	must(c.stream.Fill(c.rows, 0, 4*64*c.count))
	must(c.stream.Fill(c.flat, 0, 4*64*batch))
	c.name(b, c.count, batch)
	b.Cleanup(func() {
		for _, p := range []cuda.Ptr{c.rows, c.flat, c.ids, c.refused} {
			must(dev.Free(p))
		}
		must(c.first.Close())
		must(c.last.Close())
		must(c.module.Close())
		must(c.stream.Close())
		must(dev.Close())
	})
	return c
}

// name draws the rows of a batch, each once.
func (c *card) name(b *testing.B, count, batch int) {
	host, err := c.dev.HostAlloc(4 * batch)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.dev.HostFree(host) }()
	perm := rand.New(rand.NewPCG(1, 1)).Perm(count)
	for i, id := range perm[:batch] {
		host[4*i], host[4*i+1], host[4*i+2], host[4*i+3] = byte(id), byte(id>>8), byte(id>>16), byte(id>>24)
	}
	c.time(b, func() error { return c.stream.ToDevice(c.ids, host) })
}

func (c *card) launch(kernel string, rows int, argument []byte) error {
	f, err := c.module.Function(kernel)
	if err != nil {
		return err
	}
	return c.stream.Launch(f, ptx.Blocks(rows), ptx.BlockThreads, argument)
}

// time is what work takes on the card, in ms.
func (c *card) time(b *testing.B, work func() error) float64 {
	b.Helper()
	for _, err := range []error{c.stream.Record(c.first), work(), c.stream.Record(c.last), c.last.Wait()} {
		if err != nil {
			b.Fatal(err)
		}
	}
	ms, err := c.last.Since(c.first)
	if err != nil {
		b.Fatal(err)
	}
	return ms
}

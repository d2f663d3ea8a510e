//go:build cgo

package hbm

import (
	"errors"
	"fmt"

	"psrt/csrc/cuda"
	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/csrc/ptx"
	"psrt/rdma/mem"
	"psrt/tiers/hbm"
)

// card is rows in a GPU's memory, worked on by csrc/ptx.
type card struct {
	dev                      *cuda.Device
	stream, in               *cuda.Stream
	module                   *cuda.Module
	kernel                   map[string]cuda.Function
	first, last, sent        *cuda.Event
	rows, states, flat, bulk cuda.Ptr
	ids, refused             cuda.Ptr
	keys, foundIDs, image    cuda.Ptr
	index                    *probe.Bounded
	host, back, count        []byte // pinned: a batch's rows, what is read back, a number
	numbers                  []byte // pinned: ids
	n, dim, total            int
}

// again is how often work is given to the card for one time: what lies between two events holds
// some microseconds of the host's, too, until it has given the first.
const again = 8

func newCard(c *Config, ids []uint32, f *finder) (bed, error) {
	driver, err := cuda.Load(c.Library)
	if err != nil {
		return nil, err
	}
	dev, err := driver.Open(c.Index)
	if err != nil {
		return nil, err
	}
	b := &card{dev: dev, kernel: map[string]cuda.Function{}, n: c.Rows, dim: c.Dim, total: c.total(), index: f.index}
	if err := b.take(ids, f.keys); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *card) take(ids []uint32, keys []uint64) (err error) {
	if b.stream, err = b.dev.NewStream(); err != nil {
		b.stream = nil
		return err
	}
	if b.in, err = b.dev.NewStream(); err != nil {
		b.in = nil
		return err
	}
	if b.module, err = b.dev.Module(ptx.Text); err != nil {
		b.module = nil
		return err
	}
	for _, name := range []string{ptx.GatherRows, ptx.PutRows, ptx.UpdateRows, ptx.FindRows} {
		if b.kernel[name], err = b.module.Function(name); err != nil {
			return err
		}
	}
	for _, e := range []**cuda.Event{&b.first, &b.last, &b.sent} {
		made, err := b.dev.NewEvent(true)
		if err != nil {
			return err
		}
		*e = made
	}
	row := 4 * b.dim
	for _, p := range []struct {
		at    *cuda.Ptr
		bytes int
	}{{&b.rows, row * b.total}, {&b.states, 2 * row * b.total / 2}, {&b.flat, apartBy * row * b.n}, {&b.bulk, 6 * row * b.n}, {&b.ids, 4 * b.n}, {&b.refused, 8},
		{&b.keys, 8 * b.n}, {&b.foundIDs, 4 * b.n}, {&b.image, probe.BoundedBuckets(b.total) * probe.BucketBytes}} {
		if *p.at, err = b.dev.Alloc(p.bytes); err != nil {
			return err
		}
	}
	if b.host, err = b.dev.HostAlloc(row * b.n); err != nil {
		return err
	}
	if b.numbers, err = b.dev.HostAlloc(4 * b.n); err != nil {
		return err
	}
	copy(b.numbers, mem.Bytes(ids))
	if b.back, err = b.dev.HostAlloc(apartBy * row * b.n); err != nil {
		return err
	}
	if err := b.draw(); err != nil {
		return err
	}
	copy(b.host, mem.Bytes(keys))
	if _, err = b.time(func() error { return b.stream.ToDevice(b.keys, b.host[:8*b.n]) }); err != nil {
		return err
	}
	if b.count, err = b.dev.HostAlloc(8); err != nil {
		return err
	}
	if _, err = b.time(func() error {
		return errors.Join(b.stream.Fill(b.rows, 0, row*b.total), b.stream.Fill(b.states, 0, row*b.total), b.stream.Fill(b.bulk, 0x3c, 6*row*b.n),
			b.stream.Fill(b.refused, 0, 8), b.stream.ToDevice(b.ids, b.numbers))
	}); err != nil {
		return err
	}
	batchOf(mem.Float32s(b.host), ids, b.dim)
	_, err = b.fill()
	return err
}

// draw makes the image of the index: its buckets are rows that are put.
func (b *card) draw() error {
	const width = probe.BucketBytes / 4
	if _, err := b.time(func() error {
		return b.stream.Fill(b.image, 0, probe.BoundedBuckets(b.total)*probe.BucketBytes)
	}); err != nil {
		return err
	}
	most := min(b.n, len(b.back)/probe.BucketBytes)
	for at := make([]uint32, most); b.index.Changed() > 0; {
		n := b.index.Take(at, b.back)
		put := &ptx.Batch{Rows: uint64(b.image), Flat: uint64(b.flat), IDs: uint64(b.ids), Stride: width, Count: probe.BoundedBuckets(b.total), N: n, Width: width, Step: width}
		if _, err := b.time(func() error { return b.stream.ToDevice(b.flat, b.back[:n*probe.BucketBytes]) }); err != nil {
			return err
		}
		copy(b.host, mem.Bytes(at[:n]))
		if _, err := b.time(func() error {
			return errors.Join(b.stream.ToDevice(b.ids, b.host[:4*n]), b.launch(ptx.PutRows, n, put.Append(nil)))
		}); err != nil {
			return err
		}
	}
	return nil
}

// time is what work takes on the card, in seconds.
func (b *card) time(work func() error) (float64, error) {
	if err := errors.Join(b.stream.Record(b.first), work()); err != nil {
		return 0, err
	}
	return b.since()
}

// repeat is the time of work that can be done again and again.
func (b *card) repeat(work func() error) (float64, error) {
	s, err := b.time(func() error {
		for range again {
			if err := work(); err != nil {
				return err
			}
		}
		return nil
	})
	return s / again, err
}

func (b *card) batch(first, n int) *ptx.Batch {
	return &ptx.Batch{Rows: uint64(b.rows), Flat: uint64(b.flat.Add(4 * b.dim * first)), IDs: uint64(b.ids.Add(4 * first)),
		Stride: b.dim, Count: b.total, N: n, Width: b.dim, Step: b.dim}
}

func (b *card) launch(name string, n int, argument []byte) error {
	return b.stream.Launch(b.kernel[name], ptx.Blocks(n), ptx.BlockThreads, argument)
}

func (b *card) name() string {
	return fmt.Sprintf("GPU %d, %s (%s)", b.dev.Index, b.dev.Name, b.dev.Bus)
}

func (b *card) gather() (float64, error) {
	return b.repeat(func() error { return b.launch(ptx.GatherRows, b.n, b.batch(0, b.n).Append(nil)) })
}

func (b *card) apart() (float64, error) {
	wide := b.batch(0, b.n)
	wide.Step = apartBy * b.dim
	return b.repeat(func() error { return b.launch(ptx.GatherRows, b.n, wide.Append(nil)) })
}

func (b *card) find() (float64, error) {
	all, at := b.batch(0, b.n), ptx.Index{Keys: uint64(b.keys), Buckets: uint64(b.image)}
	all.IDs = uint64(b.foundIDs)
	at.Seed, at.Homes, at.Count = b.index.Hash()
	return b.repeat(func() error { return b.launch(ptx.FindRows, b.n, all.AppendFind(nil, &at)) })
}

func (b *card) found() ([]uint32, error) {
	_, err := b.time(func() error { return b.stream.ToHost(b.back[:4*b.n], b.foundIDs) })
	return mem.Uint32s(b.back[:4*b.n]), err
}

// fill is in the pieces of a server's buffers, each with the numbers of its rows, and as it does it:
// a piece is copied in one stream while the kernel of the one before runs in the other.
func (b *card) fill() (float64, error) {
	row, most := 4*b.dim, max(1, hbm.BufferBytes/(4*b.dim))
	if err := b.in.Record(b.first); err != nil {
		return 0, err
	}
	for first := 0; first < b.n; first += most {
		end := min(first+most, b.n)
		if err := errors.Join(b.in.ToDevice(b.ids.Add(4*first), b.numbers[4*first:4*end]), b.in.ToDevice(b.flat.Add(row*first), b.host[row*first:row*end]),
			b.in.Record(b.sent), b.stream.After(b.sent), b.launch(ptx.PutRows, end-first, b.batch(first, end-first).Append(nil))); err != nil {
			return 0, err
		}
	}
	return b.since()
}

// since is what has passed on the card since the first event, when all is done.
func (b *card) since() (float64, error) {
	if err := errors.Join(b.stream.Record(b.last), b.last.Wait()); err != nil {
		return 0, err
	}
	ms, err := b.last.Since(b.first)
	return ms / 1e3, err
}

func (b *card) bring() (float64, error) {
	return b.time(func() error { return b.stream.ToDevice(b.flat, b.host) })
}

func (b *card) update() (float64, error) {
	rule := kernels.Rule{Kind: kernels.AdaGrad, LR: 0.01, Eps: 1e-8}
	u := b.batch(0, b.n)
	u.Rows, u.Stride, u.Count = uint64(b.states), 2*b.dim, b.total/2
	s, err := b.repeat(func() error {
		return b.launch(ptx.UpdateRows, b.n, u.AppendUpdate(nil, &rule, uint64(b.refused)))
	})
	if err != nil {
		return 0, err
	}
	if _, err := b.time(func() error { return b.stream.ToHost(b.count, b.refused) }); err != nil {
		return 0, err
	}
	if n := mem.Uint64s(b.count)[0]; n > 0 {
		return 0, fmt.Errorf("hbm: %d updates were refused", n)
	}
	return s, nil
}

func (b *card) copy(bytes int) (float64, error) {
	return b.repeat(func() error { return b.stream.Within(b.bulk.Add(3*4*b.dim*b.n), b.bulk, bytes) })
}

func (b *card) gathered(apart bool) ([]float32, error) {
	bytes := 4 * b.dim * b.n
	if apart {
		bytes *= apartBy
	}
	_, err := b.time(func() error { return b.stream.ToHost(b.back[:bytes], b.flat) })
	return mem.Float32s(b.back[:bytes]), err
}

func (b *card) close() error {
	var errs []error
	for _, e := range []*cuda.Event{b.first, b.last, b.sent} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	for _, p := range []cuda.Ptr{b.rows, b.states, b.flat, b.bulk, b.ids, b.refused, b.keys, b.foundIDs, b.image} {
		if p != 0 {
			errs = append(errs, b.dev.Free(p))
		}
	}
	for _, h := range [][]byte{b.host, b.back, b.count, b.numbers} {
		if h != nil {
			errs = append(errs, b.dev.HostFree(h))
		}
	}
	if b.module != nil {
		errs = append(errs, b.module.Close())
	}
	for _, s := range []*cuda.Stream{b.stream, b.in} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, b.dev.Close())...)
}

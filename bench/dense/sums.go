package dense

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"psrt/csrc/kernels"
	"psrt/rdma/mem"
	"psrt/sched/tree"
)

// bulkBytes is what a memcpy is long that no cache holds.
const bulkBytes = 64 << 20

// sums is the arithmetic without a server, in memory as servers have it.
type sums struct {
	arenas  []*mem.Arena
	sources [][]float32
	dst     []float32
	message []float32 // what a classic server copies into before it adds
	bulk    []byte
	merges  []kernels.Merge
	scanned float32
}

func newSums(c *Config) (_ *sums, err error) {
	s := &sums{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	vector := func() []float32 {
		var b []byte
		if b, err = s.alloc(c.Bytes, err); err != nil {
			return nil
		}
		return mem.Float32s(b)
	}
	r := rand.New(rand.NewPCG(c.Seed, 1))
	for range c.Sources {
		v := vector()
		for i := range v {
			v[i] = r.Float32() - 0.5
		}
		s.sources = append(s.sources, v)
	}
	s.dst, s.message = vector(), vector()
	s.bulk, err = s.alloc(2*bulkBytes, err)
	for _, m := range tree.Merges(0, c.Sources) {
		s.merges = append(s.merges, kernels.Merge{Dst: m.Dst, Src: m.Src})
	}
	return s, err
}

func (s *sums) alloc(n int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	a, err := mem.New(mem.Config{Size: n, Node: -1, Purpose: "psbench vectors", Prefault: true})
	if err != nil {
		return nil, err
	}
	s.arenas = append(s.arenas, a)
	return a.Bytes()[:n], nil
}

func (s *sums) close() error {
	var errs []error
	for _, a := range s.arenas {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// bytes of all sources.
func (s *sums) bytes() int { return len(s.sources) * len(s.dst) * 4 }

// scan reads all sources and adds nothing else: the limit.
func (s *sums) scan() {
	for _, v := range s.sources {
		s.scanned += kernels.Scan(v)
	}
}

func (s *sums) onePass() { kernels.Sum(s.dst, s.sources) }

func (s *sums) tree() { kernels.TreeSum(s.dst, s.sources, s.merges) }

// copyThenAdd is the classic way: each worker's message is copied out of the
// receive buffer, then added, with the same kernel.
func (s *sums) copyThenAdd() {
	copy(s.dst, s.sources[0])
	for _, v := range s.sources[1:] {
		copy(s.message, v)
		kernels.Sum(s.dst, [][]float32{s.dst, s.message})
	}
}

// memcpy of 64 MiB.
func (s *sums) memcpy() { copy(s.bulk[bulkBytes:], s.bulk[:bulkBytes]) }

// check holds the one pass against the naive order, to the bit.
func (s *sums) check() error {
	want := append([]float32(nil), s.sources[0]...)
	for _, v := range s.sources[1:] {
		for i := range want {
			want[i] += v[i]
		}
	}
	s.onePass()
	for i, w := range want {
		if s.dst[i] != w {
			return fmt.Errorf("dense: float %d of the sum of %d sources is %v, the naive order gives %v", i, len(s.sources), s.dst[i], w)
		}
	}
	return nil
}

// gbs is how fast f went over n bytes.
func gbs(n int, f func()) float64 {
	start := time.Now()
	f()
	return float64(n) / float64(max(time.Since(start), 1))
}

//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
)

// leastBound is what the binding is wanted to reach of NCCL given the same work by C.
const leastBound = .98

// BenchmarkCard is what all-reduces of one rank reach through the binding beside as many
// that C gives the stream, in turns. One card has one rank; by the fake the figures say
// nothing.
func BenchmarkCard(b *testing.B) {
	opt, _ := machine(b)
	sizes, times := []int{4 << 10, 1 << 20, 256 << 20}, 200
	if os.Getenv("PSRT_GPU") == "" {
		sizes, times = sizes[:2], 3
	}
	r := newAlone(b, opt, sizes[len(sizes)-1])
	for _, bytes := range sizes {
		b.Run(fmt.Sprintf("%dKiB", bytes>>10), func(b *testing.B) {
			direct, bound := time.Duration(1<<62), time.Duration(1<<62) // the quickest of either
			for b.Loop() {
				direct = min(direct, r.time(b, func() error {
					return r.comm.AllReduces(r.stream.Raw(), uint64(r.send), uint64(r.recv), bytes/4, nccl.F32, nccl.Sum, times)
				}))
				bound = min(bound, r.time(b, func() error {
					for range times {
						if err := r.comm.AllReduce(r.stream.Raw(), uint64(r.send), uint64(r.recv), bytes/4, nccl.F32, nccl.Sum); err != nil {
							return err
						}
						for busy := r.comm.Busy(); busy; {
							var err error
							if busy, err = r.comm.State(); err != nil {
								return err
							}
						}
					}
					return nil
				}))
			}
			of := direct.Seconds() / bound.Seconds()
			if os.Getenv("PSRT_GPU") != "" {
				b.Logf("bar: an all-reduce through the binding: %.3f of NCCL's own, wanted %.3f: %s", of, leastBound, map[bool]string{true: "met", false: "short"}[of >= leastBound])
			}
			b.ReportMetric(of, "of-nccl-itself")
			b.ReportMetric(float64(bytes*times)/bound.Seconds()/1e9, "GB/s")
		})
	}
}

// alone is a communicator of one rank.
type alone struct {
	dev        *cuda.Device
	comm       *nccl.Comm
	stream     *cuda.Stream
	event      *cuda.Event
	send, recv cuda.Ptr
}

func newAlone(b *testing.B, opt Options, bytes int) *alone {
	r := &alone{}
	driver, err := cuda.Load(opt.CUDA)
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(err)
	lib, err := nccl.Load(opt.NCCL)
	must(err)
	r.dev, err = driver.Open(0)
	must(err)
	must(r.dev.In(func() error {
		id, err := lib.UniqueID()
		if err != nil {
			return err
		}
		if r.comm, err = lib.Init(id, 0, 1); err != nil {
			return err
		}
		for busy := true; busy && err == nil; {
			busy, err = r.comm.State()
		}
		return err
	}))
	r.stream, err = r.dev.NewStream()
	must(err)
	r.event, err = r.dev.NewEvent(false)
	must(err)
	r.send, err = r.dev.Alloc(bytes)
	must(err)
	r.recv, err = r.dev.Alloc(bytes)
	must(err)
	must(r.stream.Fill(r.send, 0, bytes))
	b.Cleanup(func() {
		must(errors.Join(r.dev.In(r.comm.Abort), r.dev.Free(r.send), r.dev.Free(r.recv), r.event.Close(), r.stream.Close(), r.dev.Close()))
	})
	return r
}

// time is from giving work to its end.
func (r *alone) time(b *testing.B, work func() error) time.Duration {
	b.Helper()
	began := time.Now()
	if err := errors.Join(r.dev.In(work), r.stream.Record(r.event), r.event.Wait()); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

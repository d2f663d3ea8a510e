package bucket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma"
)

// fake is a group in virtual time: its calls follow each other, each takes a while and its
// bytes, and who uses what was added takes its time as well.
type fake struct {
	call     time.Duration
	perMiB   func(bytes int) time.Duration
	workMiB  time.Duration
	now      time.Time
	free     time.Time // the call before is over
	ends     []time.Time
	worked   int // buckets
	landed   int // bytes
	lengths  []int
	failAt   int       // the call that fails, counted from 1
	others   []float64 // what the slowest of the others has measured
	barriers int
}

func (f *fake) Rank() int { return 0 }
func (f *fake) Size() int { return 2 }
func (f *fake) Register(rdma.Memory, string) (coll.Memory, error) {
	return nil, errors.New("nobody registers here")
}
func (f *fake) Abort(error)  {}
func (f *fake) Err() error   { return nil }
func (f *fake) Close() error { return nil }

func (f *fake) cost(n int) time.Duration {
	return f.call + time.Duration(float64(n)/(1<<20)*float64(f.perMiB(n)))
}

func (f *fake) begin(c coll.Call) error {
	f.lengths = append(f.lengths, len(c.Send))
	if f.failAt == len(f.lengths) {
		return errBroken
	}
	f.free = later(f.free, f.now).Add(f.cost(len(c.Send)))
	f.ends = append(f.ends, f.free)
	return nil
}

var errBroken = errors.New("broken")

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (f *fake) Start(c coll.Call) *coll.Pending {
	p := coll.NewPending()
	p.Finish(f.begin(c))
	return p
}

func (f *fake) Do(c coll.Call) error {
	switch {
	case c.Kind == coll.Barrier:
		f.barriers++
		f.ends, f.worked, f.landed = f.ends[:0], 0, 0
		return nil
	case c.Op == coll.Max:
		for i, s := range f.others {
			mine := math.Float64frombits(binary.LittleEndian.Uint64(c.Send[8*i:]))
			binary.LittleEndian.PutUint64(c.Recv[8*i:], math.Float64bits(math.Max(mine, s)))
		}
		return nil
	}
	return f.begin(c)
}

// work is told what has landed, which ends that bucket's wait.
func (f *fake) work(end int) {
	f.now = later(f.now, f.ends[f.worked]).Add(time.Duration(float64(end-f.landed) / (1 << 20) * float64(f.workMiB)))
	f.worked, f.landed = f.worked+1, end
}

// TestMeasuredChoice: the length that is quickest is chosen, whatever makes it so.
func TestMeasuredChoice(t *testing.T) {
	even := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	for _, c := range []struct {
		name   string
		vector int
		group  fake
		want   int
	}{
		{"calls are dear", 16 << 20, fake{call: 10 * time.Millisecond, perMiB: even(time.Millisecond)}, 0},
		{"nothing to gain", 16 << 20, fake{perMiB: even(time.Millisecond)}, 0},
		{"work beside the link", 16 << 20, fake{call: time.Microsecond, perMiB: even(time.Millisecond), workMiB: time.Millisecond}, 256 << 10},
		{"work, and calls that cost", 16 << 20, fake{call: 100 * time.Microsecond, perMiB: even(time.Millisecond), workMiB: 800 * time.Microsecond}, 1 << 20},
		{"long calls are slow", 16 << 20, fake{call: time.Millisecond, perMiB: func(n int) time.Duration {
			if n > 4<<20 {
				return 3 * time.Millisecond
			}
			return time.Millisecond
		}}, 4 << 20},
		{"a long vector", 100 << 20, fake{call: 10 * time.Millisecond, perMiB: even(time.Millisecond)}, 0},
		{"a short vector", 100 << 10, fake{perMiB: even(time.Millisecond), workMiB: time.Second}, 0},
		{"another rank is slow with short ones", 16 << 20, fake{perMiB: even(time.Millisecond), workMiB: time.Millisecond, others: []float64{.04, .03, .05, .05}}, 4 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &c.group
			f.now = time.Unix(0, 0)
			tried, err := Measure(f, make([]byte, max(Room, min(c.vector, MostBytes))), c.vector, f.work, func() time.Time { return f.now })
			if err != nil {
				t.Fatal(err)
			}
			if got := Choose(c.vector, tried); got != c.want {
				t.Errorf("buckets of %d bytes are chosen, want %d, of %+v", got, c.want, tried)
			}
			if f.barriers != rounds*len(tried) || len(tried) != len(Sizes(c.vector)) {
				t.Errorf("%d barriers for %d lengths", f.barriers, len(tried))
			}
		})
	}
}

// TestCuts: buckets are all of the vector, in order, none much longer than asked for.
func TestCuts(t *testing.T) {
	for _, n := range []int{1, 4, 63, 64, 100, 4096, 1<<20 + 4, 3<<20 + 12} {
		for _, size := range []int{0, 64, 100, 64 << 10, 1 << 20, 5 << 20} {
			f := &fake{perMiB: func(int) time.Duration { return 0 }}
			var ends []int
			if err := Reduce(f, coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: make([]byte, n), Recv: make([]byte, n)}, size, func(end int) { ends = append(ends, end) }); err != nil {
				t.Fatal(err)
			}
			sum := 0
			for i, l := range f.lengths {
				if sum += l; i >= len(ends) || sum != ends[i] || size > 0 && l > size+line || i+1 < len(f.lengths) && sum%line != 0 {
					t.Fatalf("%d bytes in buckets of %d: lengths %v, landed %v", n, size, f.lengths, ends)
				}
			}
			if sum != n || len(ends) != len(f.lengths) || size == 0 && len(ends) != 1 {
				t.Fatalf("%d bytes in buckets of %d: lengths %v, landed %v", n, size, f.lengths, ends)
			}
		}
	}
}

// TestFailure: after an error nothing more is begun, nothing is told of as landed, and all
// that was begun is over.
func TestFailure(t *testing.T) {
	for at := 1; at <= 8; at++ {
		f := &fake{perMiB: func(int) time.Duration { return 0 }, failAt: at}
		landed := 0
		err := Reduce(f, coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: make([]byte, 8<<10), Recv: make([]byte, 8<<10)}, 1<<10, func(int) { landed++ })
		if !errors.Is(err, errBroken) || landed != at-1 || len(f.lengths) > at+ahead-1 {
			t.Errorf("call %d fails: %v, %d landed, %d begun", at, err, landed, len(f.lengths))
		}
	}
}

// TestAgree: who knows tells the others.
func TestAgree(t *testing.T) {
	for _, c := range [][2]uint64{{0, 0}, {7, 0}, {0, 7}, {7, 7}} {
		g := &teller{other: c[1]}
		if got, err := Agree(g, make([]byte, Room), c[0]); err != nil || got != max(c[0], c[1]) {
			t.Errorf("%v: %d, %v", c, got, err)
		}
	}
}

// teller is a group with one other rank, which says something.
type teller struct {
	fake
	other uint64
}

func (g *teller) Do(c coll.Call) error {
	if c.Type != coll.U64 || c.Op != coll.Max || !bytes.Equal(c.Send, c.Recv) {
		return fmt.Errorf("%+v", c)
	}
	binary.LittleEndian.PutUint64(c.Recv, max(binary.LittleEndian.Uint64(c.Send), g.other))
	return nil
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  []int
	}{
		{1000, []int{1000}}, {300 << 10, []int{300 << 10, 256 << 10}}, {3 << 20, []int{3 << 20, 1 << 20, 256 << 10}},
		{1 << 30, []int{16 << 20, 4 << 20, 1 << 20, 256 << 10}},
	} {
		if got := Sizes(c.bytes); !slices.Equal(got, c.want) {
			t.Errorf("%d bytes: %v, want %v", c.bytes, got, c.want)
		}
	}
}

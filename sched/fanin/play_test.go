package fanin

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// player makes up a history, call by call, from a source of small numbers. It
// runs Policy and naive side by side and keeps its own book of what was
// granted.
type player struct {
	t     *testing.T
	p     *Policy
	n     *naive
	draw  func(n int) int // in [0, n)
	now   int64
	owed  []Grant // not landed, in order of granting
	open  map[[2]uint64]*book
	ids   uint64
	calls int
}

type book struct{ size, granted, landed int64 }

func newPlayer(t *testing.T, draw func(n int) int) *player {
	cfg := Config{Workers: 1 + draw(9), Transfers: 1 + draw(4), SilenceNanos: 50_000, PullRun: int64(1+draw(8)) * 32 << 10,
		BurstBytes: int64(1+draw(8)) * MaxChunk, LeastChunk: []int64{0, MinChunk, 16 << 10, MaxChunk}[draw(4)]}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	y := &player{t: t, p: p, n: newNaive(cfg), draw: draw, open: map[[2]uint64]*book{}}
	y.measure()
	return y
}

func (y *player) measure() {
	rate := []int64{400e6, 1.25e9, 5e9, 12.5e9, 50e9}[y.draw(5)]
	rtt := int64(y.draw(40)) * 1000
	y.p.Measured(rtt, rate)
	y.n.rate, y.n.rtt = rate, rtt
}

func (y *player) step() {
	y.calls++
	switch y.draw(16) {
	default: // most often: something lands
		if len(y.owed) > 0 {
			y.land(y.draw(len(y.owed)), y.draw(4) == 0)
		}
	case 0, 1, 2, 3:
		y.announce()
	case 4:
		y.cancel()
	case 5:
		if y.draw(4) == 0 {
			y.leave(y.draw(len(y.p.workers)))
		}
	case 6:
		y.now += int64(y.draw(1000)) * 400
	case 7:
		if y.draw(8) == 0 {
			y.measure()
		}
	case 8:
		y.wrong()
	case 9:
		w, word := y.draw(len(y.p.workers)), Word(y.draw(words))
		if err := y.p.Say(w, word); err != nil {
			y.t.Fatal(err)
		}
		y.n.say(w, word)
	case 10:
		n := int64(y.draw(512)) << 10
		if y.draw(2) == 0 {
			n = -min(n, y.n.answers)
		}
		y.p.Answers(n)
		y.n.answers += n
	}
	y.now += int64(y.draw(2000))
	if y.draw(3) > 0 {
		y.grants()
	}
}

func (y *player) announce() {
	w := y.draw(len(y.p.workers))
	kind := Kind(y.draw(2))
	size := 4097 + int64(y.draw(256))*int64(1+y.draw(1024))
	y.ids++
	err := y.p.Announce(w, y.ids, size, kind, y.now)
	if full := y.p.Worker(w).Transfers == cap(y.p.workers[w].transfers); err != nil {
		if !errors.Is(err, ErrFull) || !full {
			y.t.Fatalf("call %d: %v", y.calls, err)
		}
		return
	}
	y.n.announce(w, y.ids, size, kind, y.now)
	y.open[[2]uint64{uint64(w), y.ids}] = &book{size: size}
}

func (y *player) land(i int, part bool) {
	// Bytes of a transfer land in order: the oldest grant of its worker's
	// transfer is the one.
	i = slices.IndexFunc(y.owed, func(g Grant) bool { return g.Worker == y.owed[i].Worker && g.ID == y.owed[i].ID })
	g := &y.owed[i]
	bytes := g.Bytes
	if part && bytes > 1 {
		bytes = 1 + int64(y.draw(int(bytes)))
	}
	done, err := y.p.Arrived(g.Worker, g.ID, bytes, y.now)
	if err != nil {
		y.t.Fatalf("call %d: %v", y.calls, err)
	}
	if want := y.n.arrived(g.Worker, g.ID, bytes, y.now); done != want {
		y.t.Fatalf("call %d: done is %v, naive %v", y.calls, done, want)
	}
	key := [2]uint64{uint64(g.Worker), g.ID}
	b := y.open[key]
	if b.landed += bytes; done != (b.landed == b.size) {
		y.t.Fatalf("call %d: done is %v, %d of %d bytes have landed", y.calls, done, b.landed, b.size)
	}
	if done {
		delete(y.open, key)
	}
	g.Offset, g.Bytes = g.Offset+bytes, g.Bytes-bytes
	if g.Bytes == 0 {
		y.owed = slices.Delete(y.owed, i, i+1)
	}
}

// any draws an open transfer; maps have no order, so it is sorted for.
func (y *player) any() ([2]uint64, bool) {
	var keys [][2]uint64
	for k := range y.open {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return [2]uint64{}, false
	}
	slices.SortFunc(keys, func(a, b [2]uint64) int { return int(int64(a[1]) - int64(b[1])) })
	return keys[y.draw(len(keys))], true
}

func (y *player) cancel() {
	key, ok := y.any()
	if !ok {
		return
	}
	owed, err := y.p.Cancel(int(key[0]), key[1], y.now)
	want := y.n.cancel(int(key[0]), key[1], y.now)
	b := y.open[key]
	if err != nil || owed != want || owed != b.granted-b.landed {
		y.t.Fatalf("call %d: cancel says %d (%v), naive %d, the book %d", y.calls, owed, err, want, b.granted-b.landed)
	}
	if b.size = b.granted; owed == 0 {
		delete(y.open, key)
	}
}

func (y *player) leave(w int) {
	if err := y.p.Leave(w, y.now); err != nil {
		y.t.Fatal(err)
	}
	y.n.leave(w, y.now)
	y.owed = slices.DeleteFunc(y.owed, func(g Grant) bool { return g.Worker == w })
	for k := range y.open {
		if k[0] == uint64(w) {
			delete(y.open, k)
		}
	}
}

// wrong calls must be refused and change nothing: naive does not hear of them.
func (y *player) wrong() {
	var err, want error
	workers := len(y.p.workers)
	switch y.draw(10) {
	case 8:
		err, want = y.p.Say(0, words), ErrWord
	case 9:
		err, want = y.p.Say(workers, Hot), ErrWorker
	case 0:
		err, want = y.p.Announce(workers, 1, 1<<20, Push, y.now), ErrWorker
	case 1:
		err, want = y.p.Announce(0, 1, 4096, Push, y.now), ErrEager
	case 2:
		err, want = y.p.Announce(0, 1, 1<<40+1, Pull, y.now), ErrTooLarge
	case 3:
		err, want = y.p.Announce(0, 1, 1<<20, kinds, y.now), ErrKind
	case 4:
		_, err = y.p.Arrived(0, y.ids+1, 1, y.now)
		want = ErrUnknown
	case 5:
		_, err = y.p.Cancel(-1, 1, y.now)
		want = ErrWorker
	case 6:
		err, want = y.p.Leave(workers, y.now), ErrWorker
	case 7:
		key, ok := y.any()
		if !ok {
			return
		}
		b := y.open[key]
		_, err = y.p.Arrived(int(key[0]), key[1], b.granted-b.landed+1, y.now)
		want = ErrUngranted
	}
	var typed *Error
	if !errors.Is(err, want) || !errors.As(err, &typed) {
		y.t.Fatalf("call %d: %v, want %v", y.calls, err, want)
	}
}

func (y *player) grants() {
	got, want := y.p.Grants(y.now, nil), y.n.grants(y.now)
	if !slices.Equal(got, want) {
		y.t.Fatalf("call %d at %d:\n%v, naive\n%v", y.calls, y.now, got, want)
	}
	for _, g := range got {
		b := y.open[[2]uint64{uint64(g.Worker), g.ID}]
		if b == nil || g.Offset != b.granted || g.Bytes <= 0 || g.Bytes > MaxChunk || b.granted+g.Bytes > b.size {
			y.t.Fatalf("call %d: grant %+v, the book says %+v", y.calls, g, b)
		}
		b.granted += g.Bytes
	}
	y.owed = append(y.owed, got...)
	y.invariants(len(got) > 0)
}

func (y *player) invariants(granted bool) {
	s := y.p.Stats()
	var owed int64
	for _, g := range y.owed {
		owed += g.Bytes
	}
	if s.OutstandingBytes+s.LateBytes+s.AsideBytes != owed || s.OutstandingBytes < 0 || s.LateBytes < 0 || s.AsideBytes < 0 {
		y.t.Fatalf("call %d: %d outstanding, %d late, %d aside, the book says %d", y.calls, s.OutstandingBytes, s.LateBytes, s.AsideBytes, owed)
	}
	if granted && s.OutstandingBytes > s.WindowBytes {
		y.t.Fatalf("call %d: granted up to %d, the window is %d", y.calls, s.OutstandingBytes, s.WindowBytes)
	}
	if s.OutstandingBytes == 0 && s.WaitingWorkers > 0 && y.p.Deadline() == Never {
		y.t.Fatalf("call %d: %d workers wait and nothing is outstanding", y.calls, s.WaitingWorkers)
	}
	d := y.p.Deadline()
	if d == Never && s.OutstandingBytes+s.LateBytes > 0 || d <= y.now {
		y.t.Fatalf("call %d: deadline %d at %d with %d outstanding and %d late", y.calls, d, y.now, s.OutstandingBytes, s.LateBytes)
	}
}

// finish lets all that is open come to its end.
func (y *player) finish() {
	for range 1 << 20 {
		y.grants()
		if len(y.owed) > 0 {
			y.now += 100
			y.land(0, false)
		} else if y.p.Deadline() == Never {
			break
		} else {
			y.now = y.p.Deadline()
		}
	}
	if len(y.open) != 0 || len(y.owed) != 0 {
		y.t.Fatalf("%d transfers never ended, %d grants are owed", len(y.open), len(y.owed))
	}
}

func seed(t *testing.T) uint64 {
	s := uint64(time.Now().UnixNano())
	if v := os.Getenv("PSRT_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PSRT_SEED=%d", s)
	return s
}

func TestHistoriesAgainstNaive(t *testing.T) {
	s := seed(t)
	var late, aside, first, passed int64
	for i := range uint64(150) {
		rng := rand.New(rand.NewPCG(s, i))
		y := newPlayer(t, rng.IntN)
		for range 400 {
			y.step()
		}
		y.finish()
		late, aside = late+y.p.stats.Late, aside+y.p.stats.SetAside
		first, passed = first+y.p.stats.First, passed+y.p.stats.Passed
	}
	if late < 100 || aside < 100 || first < 100 || passed < 100 {
		t.Fatalf("only %d times was a worker late, %d times set aside, %d times first, %d turns were passed: the histories miss what they are for", late, aside, first, passed)
	}
}

// FuzzHistory finds most with -fuzzminimizetime 10x: a history is long, and to
// shorten each that is new takes all the time.
func FuzzHistory(f *testing.F) {
	for s := range uint64(4) {
		b := make([]byte, 600)
		rng := rand.New(rand.NewPCG(s, 0))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), 1024)]
		y := newPlayer(t, func(n int) int {
			if len(b) < 2 {
				b = nil
				return 0
			}
			v := int(b[0])<<8 | int(b[1])
			b = b[2:]
			return v % n
		})
		for len(b) > 0 {
			y.step()
		}
		y.finish()
	})
}

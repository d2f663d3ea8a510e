package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
)

// board is a RowExchange between readers of one process: it gives some of what is
// asked, in pieces of a random size, and counts.
type board struct {
	mu     sync.Mutex
	packs  []func([]uint32, []byte) (int, int, error)
	there  []chan struct{}
	room   int // bytes of an answer
	moved  []int
	broken error // of every Fetch
}

func newBoard(n, room int) *board {
	b := &board{packs: make([]func([]uint32, []byte) (int, int, error), n), moved: make([]int, n), room: room}
	for range n {
		b.there = append(b.there, make(chan struct{}))
	}
	return b
}

type seat struct {
	*board
	me int
}

func (s seat) Offer(pack func([]uint32, []byte) (int, int, error)) {
	s.packs[s.me] = pack
	close(s.there[s.me])
}

func (s seat) Fetch(ctx context.Context, reader int, rows []uint32, take func([]byte) error) (int, error) {
	if s.broken != nil {
		return 0, s.broken
	}
	select {
	case <-s.there[reader]:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	into := make([]byte, s.room)
	n, size, err := s.packs[reader](rows, into)
	if err == nil && n == 0 {
		into = make([]byte, size)
		n, size, err = s.packs[reader](rows, into)
	}
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.moved[s.me] += n
	s.mu.Unlock()
	return n, take(into[:size])
}

// split cuts a batch's leaves for n readers at random places; some may have none.
func split(r interface{ IntN(int) int }, whole Share, n int) []Share {
	cuts := []int{0, whole.Leaves()}
	for range n - 1 {
		cuts = append(cuts, r.IntN(whole.Leaves()+1))
	}
	slices.Sort(cuts)
	all := make([]Share, n)
	for i := range all {
		all[i] = whole
		all[i].First, all[i].Last = cuts[i], cuts[i+1]
	}
	return all
}

// TestGlobalShuffleOfParts: several readers, each of which keeps its share of the files
// alone, have the epochs that one reader of all has, row for row, however answers are
// cut; and no reader keeps a row of another's share.
func TestGlobalShuffleOfParts(t *testing.T) {
	r := seedtest.Rand(t)
	for range 25 {
		n := 1 + r.IntN(400)
		src, rows, whole := opened(t, r, n, 1+r.IntN(60))
		shares := split(r, whole, 1+r.IntN(4))
		seed, board := r.Uint64(), newBoard(len(shares), 30+r.IntN(3000))
		var wg sync.WaitGroup
		errs := make([]error, len(shares))
		for me, share := range shares {
			threads := 1 + r.IntN(3)
			wg.Go(func() {
				errs[me] = func() error {
					rd, err := src.NewReader(t.Context(), share, ReaderOptions{Threads: threads, Mode: Memory, Shuffle: true, Global: true, Seed: seed,
						Parts: &Parts{Shares: shares, Me: me, Rows: seat{board, me}}})
					if err != nil {
						return err
					}
					t.Cleanup(func() { rd.Close() })
					for epoch := range 3 {
						moved := shuffled(rows, seed, epoch)
						if err := rd.Epoch(epoch); err != nil {
							return err
						}
						if got, want := read(t, rd, share, n), deal(moved, share); !equal(got, want) {
							return fmt.Errorf("epoch %d, share %+v of %d rows:\n got %v\nwant %v", epoch, share, n, got, want)
						}
					}
					kept := 0
					for _, s := range rd.store.steps {
						for i := range s.Leaves {
							kept += s.Leaves[i].Len()
						}
					}
					own := 0
					for _, s := range deal(rows, share) {
						for _, l := range s {
							own += len(l)
						}
					}
					if kept != own {
						return fmt.Errorf("share %+v of %d rows keeps %d, its own are %d", share, n, kept, own)
					}
					return nil
				}()
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGlobalShuffleLosesPart: a reader whose rows cannot be had ends the epoch with the
// reason, and does not wait.
func TestGlobalShuffleLosesPart(t *testing.T) {
	r := seedtest.Rand(t)
	dir, _ := manyFiles(t, r, 300)
	src, err := Open(t.Context(), []string{dir}, Options{Fields: 3})
	if err != nil {
		t.Fatal(err)
	}
	shares := split(r, Whole(40, 1), 2)
	shares[0].Last, shares[1].First = 20, 20
	board := newBoard(2, 1000)
	board.broken = errors.New("worker 1 is gone")
	rd, err := src.NewReader(t.Context(), shares[0], ReaderOptions{Mode: Memory, Shuffle: true, Global: true, Parts: &Parts{Shares: shares, Rows: seat{board, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	for err == nil {
		_, err = rd.Next()
	}
	if !errors.Is(err, board.broken) {
		t.Fatal(err)
	}
	if _, again := rd.Next(); !errors.Is(again, board.broken) {
		t.Errorf("then %v", again)
	}
	if _, _, err := rd.store.pack(shares[0], []uint32{25}, make([]byte, 1000)); err == nil {
		t.Error("a row of another share was packed")
	}
	if _, _, err := rd.store.pack(shares[0], []uint32{4_000_000_000}, make([]byte, 1000)); err == nil {
		t.Error("a row behind the last was packed")
	}
}

// FuzzPackedRows: what a peer sends becomes rows that travel the same again, or an
// error.
func FuzzPackedRows(f *testing.F) {
	one := Batch{Labels: []float32{1, 0}, Offsets: []int32{0, 2, 2}, Keys: []uint64{7, 1 << 63}, Fields: []uint16{1, 2}, Values: []float32{.5, 2}}
	var seed []byte
	for i := range one.Labels {
		p := make([]byte, packedBytes(&one, i))
		packRow(p, &one, i)
		seed = append(seed, p...)
	}
	f.Add(seed)
	f.Add(seed[:20])
	f.Add([]byte{0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, p []byte) {
		var b Batch
		b.Reset()
		if unpackRows(&b, p) != nil {
			return
		}
		var again []byte
		for i := range b.Labels {
			q := make([]byte, packedBytes(&b, i))
			packRow(q, &b, i)
			again = append(again, q...)
		}
		if !slices.Equal(again, p) {
			t.Fatalf("%x became %x", p, again)
		}
	})
}

package dataset

import (
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

// shuffled is rows in the order of an epoch, naively.
func shuffled(rows []string, seed uint64, epoch int) []string {
	c, moved := shuffle{seed, uint64(epoch)}.counter(wholeOrder, 0), make([]string, len(rows))
	for to, from := range c.permutation(nil, len(rows)) {
		moved[to] = rows[from]
	}
	return moved
}

// TestGlobalShuffle: in every epoch each row comes once; the order is that of the same
// permutation laid naively over the rows as they are in the files; and it is another
// one in another epoch and with another seed. A reader of some leaves alone needs the
// others.
func TestGlobalShuffle(t *testing.T) {
	r := seedtest.Rand(t)
	for range 25 {
		n := 1 + r.IntN(300)
		src, rows, whole := opened(t, r, n, 1+r.IntN(60))
		if part := whole; part.Last > 1 {
			part.Last--
			if _, err := src.NewReader(t.Context(), part, ReaderOptions{Mode: Memory, Shuffle: true, Global: true}); err == nil {
				t.Fatal("a reader of some leaves shuffles all rows without the other readers")
			}
		}
		seed := r.Uint64()
		orders := make(map[string]bool)
		for epoch := range 3 {
			moved := shuffled(rows, seed, epoch)
			if sorted := slices.Sorted(slices.Values(moved)); !slices.Equal(sorted, slices.Sorted(slices.Values(rows))) {
				t.Fatalf("epoch %d of %d rows is no permutation", epoch, n)
			}
			rd, err := src.NewReader(t.Context(), whole, ReaderOptions{Threads: 1 + r.IntN(3), Mode: Memory, Shuffle: true, Global: true, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if err := rd.Epoch(epoch); err != nil {
				t.Fatal(err)
			}
			if got, want := read(t, rd, whole, n), deal(moved, whole); !equal(got, want) {
				t.Fatalf("epoch %d of %d rows:\n got %v\nwant %v", epoch, n, got, want)
			}
			rd.Close()
			all := ""
			for _, row := range moved {
				all += row + "\n"
			}
			orders[all] = true
		}
		if n > 20 && len(orders) != 3 {
			t.Errorf("%d orders of %d rows in 3 epochs", len(orders), n)
		}
	}
}

// A row of any place of the files comes to any place of the epoch.
func TestGlobalShuffleReaches(t *testing.T) {
	r := seedtest.Rand(t)
	const n, tries = 8, 4000
	seed := r.Uint64()
	var at [n][n]int
	for epoch := range tries {
		c := shuffle{seed, uint64(epoch)}.counter(wholeOrder, 0)
		for to, from := range c.permutation(nil, n) {
			at[from][to]++
		}
	}
	for from := range at {
		for to, times := range at[from] {
			if times < tries/n*7/10 || times > tries/n*13/10 { // six standard deviations
				t.Errorf("row %d comes to place %d in %d of %d epochs", from, to, times, tries)
			}
		}
	}
}

// More rows than there are numbers for are refused: another row would come instead.
func TestGlobalShuffleRefuses(t *testing.T) {
	st := &store{}
	for range 3 {
		st.steps = append(st.steps, &Step{Rows: mostOrdered / 3})
	}
	if err := st.orderable(); err != nil {
		t.Errorf("%d rows: %v", mostOrdered, err)
	}
	st.steps = append(st.steps, &Step{Rows: 1})
	if err := st.orderable(); err == nil || !strings.Contains(err.Error(), "--global-shuffle") {
		t.Errorf("one row more: %v", err)
	}
}

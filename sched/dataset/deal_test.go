package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// manyFiles writes n numbered rows over several files with blank lines between,
// and returns the rows as a naive reader sees them.
func manyFiles(t *testing.T, r *rand.Rand, n int) (dir string, rows []string) {
	dir = t.TempDir()
	kinds := []string{"", "gz", "zst", "lz4"}
	for f := 0; len(rows) < n; f++ {
		var text strings.Builder
		for k := min(1+r.IntN(n), n-len(rows)); k > 0; k-- {
			label, id := len(rows)%2, len(rows)
			for range r.IntN(3) - 1 {
				text.WriteString("\n")
			}
			fmt.Fprintf(&text, "%d 0:%d:1", label, id)
			row := fmt.Sprintf("%d 0:%d:1", label, id)
			for range r.IntN(4) {
				x := fmt.Sprintf(" %d:%d:%d", r.IntN(3), r.Uint64(), r.IntN(100))
				text.WriteString(x)
				row += x
			}
			rows = append(rows, row)
			text.WriteString("\n")
		}
		kind := kinds[f%4]
		path := filepath.Join(dir, fmt.Sprintf("part-%03d.%s", f, kind))
		if err := os.WriteFile(path, compressed(t, kind, []byte(text.String())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, rows
}

// deal is the definition of Share, written down naively.
func deal(rows []string, share Share) (leaves [][][]string) {
	for from := 0; from < len(rows); from += share.Batch {
		batch := rows[from:min(from+share.Batch, len(rows))]
		var own [][]string
		for j := share.First; j < share.Last; j++ {
			a := min(j*share.Micro, len(batch))
			b := min((j+1)*share.Micro, share.Batch, len(batch))
			own = append(own, batch[a:b])
		}
		leaves = append(leaves, own)
	}
	return leaves
}

// read collects one epoch's leaves and checks the numbers on every step.
func read(t *testing.T, r *Reader, share Share, total int) (leaves [][][]string) {
	t.Helper()
	for {
		step, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		k := len(leaves)
		if step.Index != k || step.FirstRow != uint64(k*share.Batch) || step.Rows != min(share.Batch, total-k*share.Batch) || len(step.Leaves) != share.Last-share.First {
			t.Fatalf("step %d: Index %d, FirstRow %d, Rows %d, %d leaves of share %+v", k, step.Index, step.FirstRow, step.Rows, len(step.Leaves), share)
		}
		var own [][]string
		for i := range step.Leaves {
			leaf := []string{}
			for row := range step.Leaves[i].Len() {
				leaf = append(leaf, rowText(&step.Leaves[i], row))
			}
			own = append(own, leaf)
		}
		leaves = append(leaves, own)
		step.Release()
		step.Release() // harmless
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatalf("Next behind the end: %v", err)
	}
	return leaves
}

func equal(a, b [][][]string) bool {
	return slices.EqualFunc(a, b, func(x, y [][]string) bool {
		return slices.EqualFunc(x, y, func(p, q []string) bool { return slices.Equal(p, q) })
	})
}

// opened is n rows of manyFiles, and all leaves of a batch that is cut anyhow.
func opened(t *testing.T, r *rand.Rand, n, batch int) (src *Source, rows []string, whole Share) {
	t.Helper()
	dir, rows := manyFiles(t, r, n)
	src, err := Open(t.Context(), []string{dir}, Options{Fields: 3})
	if err != nil {
		t.Fatal(err)
	}
	return src, rows, Whole(batch, 1+r.IntN(batch))
}

// Every share in every mode, with any number of threads, over three epochs,
// gives the rows that the naive definition gives.
func TestDeal(t *testing.T) {
	r := seedtest.Rand(t)
	for range 40 {
		n := 1 + r.IntN(300)
		src, rows, share := opened(t, r, n, 1+r.IntN(60))
		share.First = r.IntN(share.Leaves() + 1)
		share.Last = share.First + r.IntN(share.Leaves()-share.First+1)
		want := deal(rows, share)
		for _, mode := range []string{Queue, Memory} {
			rd, err := src.NewReader(t.Context(), share, ReaderOptions{Threads: 1 + r.IntN(4), Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			for epoch := range 3 {
				if err := rd.Epoch(epoch); err != nil {
					t.Fatal(err)
				}
				if got := read(t, rd, share, n); !equal(got, want) {
					t.Fatalf("%s mode, epoch %d, share %+v of %d rows:\n got %v\nwant %v", mode, epoch, share, n, got, want)
				}
			}
			rd.Close()
		}
	}
}

// A shuffle keeps every row in its partition, once; it is the same whatever the
// split into workers, threads and repetition, and another in the next epoch.
func TestShuffle(t *testing.T) {
	r := seedtest.Rand(t)
	for range 20 {
		n := 200 + r.IntN(300)
		src, rows, all := opened(t, r, n, 8+r.IntN(20))
		seed := r.Uint64()
		for _, mode := range []string{Queue, Memory} {
			epochs := func(share Share, window int) (out [3][][][]string) {
				rd, err := src.NewReader(t.Context(), share, ReaderOptions{Threads: 1 + r.IntN(3), Mode: mode, Shuffle: true, Seed: seed, Window: window})
				if err != nil {
					t.Fatal(err)
				}
				defer rd.Close()
				for e := range out {
					if err := rd.Epoch(e % 2); err != nil { // 0, 1, 0
						t.Fatal(err)
					}
					out[e] = read(t, rd, share, n)
				}
				return out
			}
			window := 1 + r.IntN(12)
			got := epochs(all, window)
			if !equal(got[0], got[2]) {
				t.Fatalf("%s: epoch 0 read twice differs", mode)
			}
			if window > 4 && equal(got[0], got[1]) {
				t.Fatalf("%s: epochs 0 and 1 have the same order", mode)
			}
			if mode == Memory {
				window = len(got[0])
			}
			checkPartitions(t, deal(rows, all), got[0], window)

			cut := r.IntN(all.Leaves() + 1)
			left, right := all, all
			left.Last, right.First = cut, cut
			a, b := epochs(left, window), epochs(right, window)
			for e := range got {
				for s := range got[e] {
					if !equal([][][]string{got[e][s]}, [][][]string{append(slices.Clone(a[e][s]), b[e][s]...)}) {
						t.Fatalf("%s: two workers see other leaves than one in step %d of epoch %d", mode, s, e)
					}
				}
			}
		}
	}
}

// checkPartitions: within each window the rows of leaf j are those it had.
func checkPartitions(t *testing.T, before, after [][][]string, window int) {
	t.Helper()
	for from := 0; from < len(before); from += window {
		to := min(from+window, len(before))
		for j := range before[from] {
			var x, y []string
			for s := from; s < to; s++ {
				if len(before[s][j]) != len(after[s][j]) {
					t.Fatalf("step %d leaf %d has %d rows, had %d", s, j, len(after[s][j]), len(before[s][j]))
				}
				x, y = append(x, before[s][j]...), append(y, after[s][j]...)
			}
			slices.Sort(x)
			slices.Sort(y)
			if !slices.Equal(x, y) {
				t.Fatalf("partition %d of steps %d to %d lost or gained rows", j, from, to)
			}
		}
	}
}

// Every place is equally likely for every row.
func TestPermutationUniform(t *testing.T) {
	const n, rounds = 6, 60000
	var seen [n][n]int
	for s := range uint64(rounds) {
		c := shuffle{seed: s}.counter(3, 1)
		for place, row := range c.permutation(nil, n) {
			seen[row][place]++
		}
	}
	chi := 0.0
	for _, row := range seen {
		for _, k := range row {
			d := float64(k) - rounds/n
			chi += d * d / (rounds / n)
		}
	}
	if chi > 60 { // 25 degrees of freedom: above 60 once in ten thousand
		t.Errorf("chi-square %.1f over %v", chi, seen)
	}
}

// An error comes behind the good batches before it, and stays.
func TestErrorInOrder(t *testing.T) {
	text := strings.Repeat("1 0:1:1\n", 25000) + "1 0:x:1\n" + strings.Repeat("1 0:1:1\n", 500) + "1 0:1:nan\n"
	src, err := Open(t.Context(), []string{file(t, "f", []byte(text))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, shuffled := range []bool{false, true} {
		r, err := src.NewReader(t.Context(), Whole(1000, 100), ReaderOptions{Threads: 4, Shuffle: shuffled})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 25 {
			if _, err := r.Next(); err != nil {
				t.Fatalf("batch %d: %v", i, err)
			}
		}
		for range 2 {
			var e *Error
			if _, err := r.Next(); !errors.As(err, &e) || e.Line != 25001 || e.Column != 3 {
				t.Errorf("error %v, want line 25001 column 3", err)
			}
		}
		r.Close()
	}
	// A worker that does not own the bad rows does not read them.
	r, err := src.NewReader(t.Context(), Share{Batch: 1000, Micro: 100, First: 8, Last: 10}, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for steps := 0; ; steps++ {
		if _, err := r.Next(); err != nil {
			if err != io.EOF || steps != 26 {
				t.Errorf("%d steps, %v", steps, err)
			}
			return
		}
	}
}

func TestMemoryBound(t *testing.T) {
	src, err := Open(t.Context(), []string{file(t, "f", []byte(strings.Repeat("1 0:1:1\n", 1000)))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for limit, ok := range map[int64]bool{1000 * (rowBytes + occurrenceBytes): true, 1000*(rowBytes+occurrenceBytes) - 1: false} {
		_, err := rowsIn(t, src, Whole(100, 10), ReaderOptions{Mode: Memory, MaxBytes: limit})
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "--dataset queue") {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// A reader left in the middle, cancelled or closed, leaves no goroutine.
func TestNothingLeftBehind(t *testing.T) {
	src, err := Open(t.Context(), []string{file(t, "f", []byte(strings.Repeat("1 0:1:1\n", 50000)))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for i := range 24 {
		ctx, cancel := context.WithCancel(t.Context())
		opts := ReaderOptions{Threads: 3, Mode: []string{Queue, Memory}[i%2], Shuffle: i%4 > 1}
		r, err := src.NewReader(ctx, Whole(500, 50), opts)
		if err != nil {
			t.Fatal(err)
		}
		held, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := r.Epoch(1); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 1 && opts.Mode == Queue {
			cancel()
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after cancel: %v", err)
			}
		}
		r.Close()
		r.Close()
		cancel()
		if _, err := r.Next(); err == nil || err == io.EOF {
			t.Errorf("Next on a closed reader: %v", err)
		}
		if held.Leaves[9].Len() != 50 {
			t.Error("a held step was taken away")
		}
		held.Release()
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestBadReaders(t *testing.T) {
	src, err := Open(t.Context(), []string{file(t, "f", []byte("1 1:1\n"))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		share Share
		opts  ReaderOptions
		want  string
	}{
		{Whole(0, 1), ReaderOptions{}, "batch of 0 examples, must be 1 to"},
		{Whole(10, 0), ReaderOptions{}, "leaf of 0 examples"},
		{Whole(10, 11), ReaderOptions{}, "leaf of 11 examples in a batch of 10"},
		{Share{10, 5, 1, 3}, ReaderOptions{}, "leaves 1 to 3 asked, a batch of 10 examples in leaves of 5 has 2"},
		{Share{10, 5, 2, 1}, ReaderOptions{}, "leaves 2 to 1 asked"},
		{Whole(10, 5), ReaderOptions{Mode: "disk"}, "reading mode \"disk\" is unknown; known are queue, memory"},
		{Whole(10, 5), ReaderOptions{Threads: -1}, "-1 parsing threads"},
		{Whole(10, 5), ReaderOptions{Window: -1}, "window of -1 batches"},
	} {
		if _, err := src.NewReader(t.Context(), c.share, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v %+v: %v, want %s", c.share, c.opts, err, c.want)
		}
	}
}

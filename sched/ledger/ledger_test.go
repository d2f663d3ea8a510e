package ledger

import (
	"encoding/json"
	"fmt"
	"testing"

	"psrt/csrc/seedtest"
)

// copied is what a book is when it comes back from where it is kept.
func copied(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var c Ledger
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(l.Files, len(l.Workers)); err != nil {
		t.Fatal(err)
	}
	return &c
}

// TestEachRangeOnce: workers of any speed, more of them than files or fewer, whose Takes
// are made again now and then, take every range of every file once, and the book stays
// small.
func TestEachRangeOnce(t *testing.T) {
	r := seedtest.Rand(t)
	for range 300 {
		lengths := make([]int64, r.IntN(12)) // in ranges; 0: an empty file
		for i := range lengths {
			lengths[i] = int64(r.IntN(20))
		}
		type reader struct {
			n     int
			last  Grant
			over  bool
			speed int
		}
		workers := make([]reader, 1+r.IntN(9))
		l := New(len(lengths), len(workers))
		for i := range workers {
			workers[i].speed = 1 + r.IntN(30)
		}
		read := map[Grant]int{}
		for left := len(workers); left > 0; {
			i := r.IntN(len(workers))
			w := &workers[i]
			if w.over || r.IntN(30) >= w.speed {
				continue
			}
			ended := w.n > 0 && w.last.Range >= lengths[w.last.File]-1 && (r.IntN(2) == 0 || w.last.Range >= lengths[w.last.File])
			l = copied(t, l)
			g, ok, err := l.Take(i, w.n, ended)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				w.over = true
				left--
				continue
			}
			if again, _, err := l.Take(i, w.n, ended); err != nil || again != g {
				t.Fatalf("worker %d's range %d is %v, and then %v, %v", i, w.n, g, again, err)
			}
			if w.n > 0 && w.last.File == g.File && g.Range <= w.last.Range {
				t.Fatalf("worker %d goes back from %v to %v", i, w.last, g)
			}
			w.n, w.last = w.n+1, g
			if g.Range < lengths[g.File] {
				read[g]++
			}
			if len(l.Open) > len(workers)+1 {
				t.Fatalf("%d open files for %d workers", len(l.Open), len(workers))
			}
		}
		for f, n := range lengths {
			for k := range n {
				if got := read[Grant{f, k}]; got != 1 {
					t.Fatalf("range %d of file %d of %d was read %d times", k, f, n, got)
				}
			}
		}
	}
}

// TestPolicy: files are shared when there are no others, by as few as can be; who is
// slow takes fewer.
func TestPolicy(t *testing.T) {
	l := New(3, 4)
	take := func(worker int, ended bool) string {
		g, ok, err := l.Take(worker, l.Workers[worker].Given, ended)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d/%d%v", g.File, g.Range, ok)
	}
	for _, c := range []struct {
		worker int
		ended  bool
		want   string
	}{
		{0, false, "0/0true"}, {1, false, "1/0true"}, {1, false, "1/1true"}, {2, false, "2/0true"},
		{3, false, "0/1true"}, // the first of those with one worker
		{1, true, "2/1true"},  // file 1 is over; 0 has two workers, 2 has one
		{0, false, "0/2true"},
		{2, true, "0/3true"}, {1, true, "0/4true"},
		{0, true, "0/0false"}, {3, true, "0/0false"},
	} {
		if got := take(c.worker, c.ended); got != c.want {
			t.Fatalf("worker %d gets %s, want %s; %+v", c.worker, got, c.want, l)
		}
	}
}

func TestRefused(t *testing.T) {
	l := New(1, 1)
	for _, c := range [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
		if _, _, err := l.Take(c[0], c[1], false); err == nil {
			t.Errorf("worker %d gets its range %d", c[0], c[1])
		}
	}
	for _, bad := range []string{`{"files":2,"workers":[{}]}`, `{"files":1,"workers":[]}`, `{"files":1,"begun":2,"workers":[{}]}`,
		`{"files":1,"begun":1,"open":[{"file":1,"range":1}],"workers":[{}]}`, `{"files":1,"workers":[{"given":1}]}`} {
		var b Ledger
		if err := json.Unmarshal([]byte(bad), &b); err != nil {
			t.Fatal(err)
		}
		if b.Check(1, 1) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

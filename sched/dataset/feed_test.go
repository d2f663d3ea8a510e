package dataset

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

// given is a feed that is known from the start.
type given []Entry

func (g given) Entry(_ context.Context, n int, _ FeedState) (Entry, error) {
	if n < len(g) {
		return g[n], nil
	}
	return Entry{End: true}, nil
}

// naivePass is a pass as a simple loop over rows makes it: its steps' rows, and where
// each begins; over says that nothing came.
type naivePass struct {
	steps [][]string
	from  []Cursor
}

// naive cuts a feed into passes and steps.
func naive(g given, files map[string][]string, batch int, limit int64) (all []naivePass) {
	pass, step, rows := naivePass{}, []string(nil), int64(0)
	endStep := func() {
		if step != nil {
			pass.steps, step = append(pass.steps, step), nil
		}
	}
	endPass := func() { endStep(); all, pass, rows = append(all, pass), naivePass{}, 0 }
	for n, e := range g {
		if e.File != "" {
			all := files[e.File][e.From:]
			if e.Rows > 0 {
				all = all[:min(int64(len(all)), e.Rows)]
			}
			for k, row := range all {
				if step == nil {
					pass.from = append(pass.from, Cursor{n, int64(k), len(pass.steps), uint64(rows)})
				}
				step = append(step, row)
				if rows++; len(step) == batch || rows == limit {
					endStep()
				}
				if rows == limit {
					endPass()
				}
			}
			continue
		}
		if endStep(); e.Pass {
			endPass()
		}
	}
	endPass()
	return all
}

// randomFeed writes files and feeds them in ranges, with other entries between.
func randomFeed(t *testing.T, r *rand.Rand) (g given, files map[string][]string) {
	dir, id := t.TempDir(), 0
	files = make(map[string][]string)
	for f := range 1 + r.IntN(6) {
		path, text := filepath.Join(dir, fmt.Sprint(f)), ""
		for range r.IntN(80) {
			row := fmt.Sprintf("%d 0:%d:1", id%2, id)
			files[path] = append(files[path], row)
			text += strings.Repeat("\n", max(0, r.IntN(4)-2)) + row + "\n"
			id++
		}
		body := compressed(t, []string{"", "gz"}[r.IntN(2)], []byte(text))
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		for from := int64(0); ; {
			e := Entry{File: path, Size: int64(len(body)), From: from, Rows: int64(r.IntN(60))}
			g = append(g, e)
			if r.IntN(4) == 0 {
				g = append(g, Entry{Flush: true})
			}
			if r.IntN(5) == 0 {
				g = append(g, Entry{Pass: true})
			}
			if from += e.Rows; e.Rows == 0 || from >= int64(len(files[path])) {
				break
			}
		}
	}
	return g, files
}

// TestStream: every share, with any number of threads, sees what a simple loop over
// the feed sees; and so does one that begins at any place another one was at.
func TestStream(t *testing.T) {
	r := seedtest.Rand(t)
	for range 60 {
		g, files := randomFeed(t, r)
		limit := int64(r.IntN(3) * r.IntN(100))
		share := Whole(1+r.IntN(40), 1)
		share.Micro = 1 + r.IntN(share.Batch)
		share.First = r.IntN(share.Leaves() + 1)
		share.Last = share.First + r.IntN(share.Leaves()-share.First+1)
		want := naive(g, files, share.Batch, limit)
		src, err := NewStream(g, limit, Options{Format: LibFFM, Fields: 1})
		if err != nil {
			t.Fatal(err)
		}
		open := func() *Reader {
			rd, err := src.NewReader(t.Context(), share, ReaderOptions{Threads: 1 + r.IntN(3)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rd.Close() })
			return rd
		}
		// follow reads from a step of a pass to the end, and n steps of that at most.
		follow := func(rd *Reader, pass, step, n int) {
			for p := pass; p < len(want); p++ {
				if p > pass {
					if err := rd.Epoch(p); err != nil {
						t.Fatal(err)
					}
				}
				for k := step; k < len(want[p].steps); k++ {
					if n--; n < 0 {
						return
					}
					s, err := rd.Next()
					if err != nil {
						t.Fatalf("pass %d, step %d: %v", p, k, err)
					}
					rows := want[p].steps[k]
					if s.Index != k || s.Rows != len(rows) || s.FirstRow != want[p].from[k].First || s.From != want[p].from[k] {
						t.Fatalf("pass %d, step %d: index %d, %d rows from %d at %+v, want %d rows at %+v", p, k, s.Index, s.Rows, s.FirstRow, s.From, len(rows), want[p].from[k])
					}
					for j := share.First; j < share.Last; j++ {
						own := rows[min(j*share.Micro, len(rows)):min((j+1)*share.Micro, len(rows))]
						var got []string
						for i := range s.Leaves[j-share.First].Len() {
							got = append(got, rowText(&s.Leaves[j-share.First], i))
						}
						if !slices.Equal(got, own) {
							t.Fatalf("pass %d, step %d, leaf %d: %q, want %q", p, k, j, got, own)
						}
					}
					s.Release()
				}
				if _, err := rd.Next(); err != io.EOF {
					t.Fatalf("pass %d ends with %v", p, err)
				}
				if _, ok := rd.Start(p + 1); !ok {
					t.Fatalf("it is not known where pass %d begins", p+1)
				}
				step = 0
			}
		}
		rd := open()
		follow(rd, 0, 0, 1<<30)
		for p := range want {
			if len(want[p].steps) == 0 {
				continue
			}
			k := r.IntN(len(want[p].steps))
			if err := rd.Seek(p, want[p].from[k]); err != nil {
				t.Fatal(err)
			}
			follow(rd, p, k, r.IntN(20))
			other := open()
			if err := other.Seek(p, want[p].from[k]); err != nil {
				t.Fatal(err)
			}
			follow(other, p, k, 1<<30)
			break
		}
	}
}

// heard is a feed that notes what readers know of files' ends.
type heard struct {
	given
	more map[int]bool
}

func (h heard) Entry(ctx context.Context, n int, at FeedState) (Entry, error) {
	h.more[n] = at.More
	return h.given.Entry(ctx, n, at)
}

// A reader says that a file may have more rows, over the ends of passes too.
func TestStreamMore(t *testing.T) {
	path := file(t, "x", []byte(strings.Repeat("1 0:1:1\n", 10)))
	at := func(from, rows int64) Entry { return Entry{File: path, Size: 80, From: from, Rows: rows} }
	h := heard{given{at(0, 4), {Pass: true}, at(4, 4), {Flush: true}, at(8, 4), {Pass: true}}, map[int]bool{}}
	src, err := NewStream(h, 0, Options{Format: LibFFM, Fields: 1})
	if err != nil {
		t.Fatal(err)
	}
	rd, err := src.NewReader(t.Context(), Whole(3, 1), ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	rows := 0
	for pass := range 3 {
		if err := rd.Epoch(pass); err != nil {
			t.Fatal(err)
		}
		for {
			s, err := rd.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			rows += s.Rows
		}
	}
	want := map[int]bool{0: false, 1: true, 2: true, 3: true, 4: true, 5: false, 6: false}
	if rows != 10 || !maps.Equal(h.more, want) {
		t.Errorf("%d rows, more %v, want %v", rows, h.more, want)
	}
}

// Files that are not what they were are refused, and named.
func TestStreamRefuses(t *testing.T) {
	path := file(t, "x", []byte(ffmText))
	size := int64(len(ffmText))
	for _, c := range []struct {
		name  string
		entry Entry
		seek  Cursor
		says  string
	}{
		{"gone", Entry{File: path + "y", Size: 5}, Cursor{}, "vanished"},
		{"grown", Entry{File: path, Size: size - 1}, Cursor{}, "and has 37 now"},
		{"shorter than trained", Entry{File: path, Size: size}, Cursor{Rows: 4}, "has 3 rows"},
	} {
		src, err := NewStream(given{c.entry}, 0, Options{Format: LibFFM, Fields: 2})
		if err != nil {
			t.Fatal(err)
		}
		rd, err := src.NewReader(t.Context(), Whole(2, 1), ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := rd.Seek(0, c.seek); err != nil {
			t.Fatal(err)
		}
		if _, err := rd.Next(); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.name, err)
		}
		rd.Close()
	}
}

// A range behind the end of its file is empty: it was given by who did not know that.
func TestStreamRangeBehindTheEnd(t *testing.T) {
	path := file(t, "x", []byte(strings.Repeat("1 0:1:1\n", 10)))
	src, err := NewStream(given{{File: path, Size: 80, Rows: 64}, {File: path, Size: 80, From: 64, Rows: 64}, {File: path, Size: 80}}, 0, Options{Format: LibFFM, Fields: 1})
	if err != nil {
		t.Fatal(err)
	}
	rd, err := src.NewReader(t.Context(), Whole(4, 1), ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	rows := 0
	for {
		s, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows += s.Rows
	}
	if rows != 20 {
		t.Errorf("%d rows of 10 and 10", rows)
	}
}

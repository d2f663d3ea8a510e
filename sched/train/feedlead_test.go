package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/coord/local"
	"psrt/sched/dataset"
)

// TestPassByTime: a pass that lasts a time ends at the first range that is asked for when
// the time is over and the pass has rows, within a file too; what follows is the rest of
// that file, and in all, every row of every file is given once, in order.
func TestPassByTime(t *testing.T) {
	r := seedtest.Rand(t)
	const batch, lasts = 10, time.Minute
	for range 20 {
		dir := t.TempDir()
		rows := map[string]int64{} // of each file, which the leader does not know
		for i := range 1 + r.IntN(4) {
			path := filepath.Join(dir, fmt.Sprintf("part-%d", i))
			if err := os.WriteFile(path, []byte("1 0:1:1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			rows[path] = int64(r.IntN(5000))
		}
		now := time.Now().Add(time.Hour) // the files have not changed for long
		job := &Job{Data: []string{dir}, Batch: batch, Stream: &Stream{Seconds: lasts.Seconds(), Idle: 1}}
		l := newLeader(&worker{job: job, rank: &Rank{Coord: local.New()}})
		l.now = func() time.Time { return now }
		if err := l.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		at, given, began := dataset.FeedState{}, map[string]int64{}, now
		for n := 0; ; n++ {
			e, err := l.Entry(t.Context(), n, at)
			if err != nil {
				t.Fatal(err)
			}
			isOver := at.Rows > 0 && now.Sub(began) >= lasts
			if e.Pass != isOver {
				t.Fatalf("entry %d is %+v after %v and %d rows of a pass of %v", n, e, now.Sub(began), at.Rows, lasts)
			}
			if again, err := l.Entry(t.Context(), n, at); err != nil || again != e {
				t.Fatalf("entry %d is %+v, and then %+v, %v", n, e, again, err)
			}
			if e.End {
				break
			}
			switch {
			case e.Pass:
				at.Pass, at.Rows, began = at.Pass+1, 0, now.Add(time.Second)
			case e.File != "":
				if e.From != given[e.File] || e.Rows != grantBatches*batch {
					t.Fatalf("entry %d is %+v, behind %d rows of that file", n, e, given[e.File])
				}
				took := min(e.Rows, rows[e.File]-e.From)
				given[e.File] += took
				at.Rows += took
				at.More = took == e.Rows
			}
			now = now.Add(time.Second) // all that is asked for next is asked then
			if e.File != "" {
				now = now.Add(time.Duration(r.IntN(20)) * time.Second)
			}
			if at.More {
				continue
			}
			if given := len(l.done); given == len(rows) {
				now = now.Add(2 * time.Second) // and no file comes any more
			}
		}
		for path, n := range rows {
			if given[path] != n {
				t.Errorf("%d of %d rows of %s were given", given[path], n, path)
			}
		}
	}
}

// TestStreamsEndAndFilesOnTheirWay: a stream is not over while a file is there that is not
// whole yet; one that comes anew before it is taken up is taken up as it is then; and what
// changes afterwards is told of, once, and not trained again.
func TestStreamsEndAndFilesOnTheirWay(t *testing.T) {
	dir := t.TempDir()
	skipped := time.Hour
	now := func() time.Time { return time.Now().Add(skipped) }
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now(), now()); err != nil {
			t.Fatal(err)
		}
	}
	var notes []string
	job := &Job{Data: []string{dir}, Batch: 10, Stream: &Stream{Idle: .6, Settle: .3}}
	l := newLeader(&worker{job: job, rank: &Rank{Coord: local.New(), Events: func(e Event) { notes = append(notes, e.Note+e.Warning) }}})
	l.now = now
	put("a", "1 0:1:1\n")
	put("b", "1 0:1:1\n")
	if err := l.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var took []string
	for n := 0; ; n++ {
		e, err := l.Entry(t.Context(), n, dataset.FeedState{})
		if err != nil {
			t.Fatal(err)
		}
		if e.End {
			break
		}
		name := filepath.Base(e.File)
		took = append(took, fmt.Sprintf("%s %d", name, e.Size))
		switch name {
		case "a":
			put("b", "1 0:1:1\n1 0:1:2\n") // while a is read
		case "b":
			skipped += 10 * time.Second // it took longer than a stream may be idle
			put("c", "1 0:1:1\n")
		case "c":
			put("a", "1 0:1:9\n1 0:1:9\n") // under a name that was trained
		}
	}
	if want := []string{"a 8", "b 16", "c 8"}; !slices.Equal(took, want) {
		t.Errorf("took up %q, want %q", took, want)
	}
	changed := filepath.Join(dir, "a") + " has changed"
	if n := strings.Count(strings.Join(notes, "\n"), "has changed"); n != 1 || !strings.Contains(strings.Join(notes, "\n"), changed) {
		t.Errorf("notes: %q", notes)
	}
	// One that never becomes whole keeps the stream open, and is told of.
	at := now().Add(time.Hour)
	notes = nil
	for i := 0; ; i++ {
		put("growing", strings.Repeat("1 0:1:1\n", i+1))
		path := filepath.Join(dir, "growing")
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		l.look(at)
		l.check(at, complainEvery)
		if l.watch.Unsettled() == "" {
			t.Fatal("it is taken for whole")
		}
		if len(notes) > 0 {
			break
		}
		at = at.Add(time.Second)
		if i > 100 {
			t.Fatal("nobody is told")
		}
	}
	if !strings.Contains(notes[0], "growing keeps changing") {
		t.Errorf("notes: %q", notes)
	}
}

// TestLeaderForgets: names whose files are gone are let go of where there are too many, those
// that are there never; and so are entries that nobody will ask for.
func TestLeaderForgets(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Add(time.Hour) // the files have not changed for long
	job := &Job{Data: []string{dir}, Batch: 10, Stream: &Stream{Log: filepath.Join(t.TempDir(), "log"), Idle: 1}}
	l := newLeader(&worker{job: job, rank: &Rank{Coord: local.New()}})
	l.now, l.known = func() time.Time { return now }, 3
	if err := l.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	entry := func(n int) dataset.Entry {
		t.Helper()
		e, err := l.Entry(t.Context(), n, dataset.FeedState{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	const files = 8
	path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("part-%d", i)) }
	for i := range files {
		if err := os.WriteFile(path(i), []byte("1 0:1:1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if e := entry(i); e.File != path(i) {
			t.Fatalf("entry %d is %+v", i, e)
		}
		if i%2 == 0 { // the others stay
			if err := os.Remove(path(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.forget(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	l.look(now)
	if len(l.done) != files/2 || l.base != files-2 || len(l.entries) != 2 {
		t.Errorf("%d names are known, and %d entries behind %d", len(l.done), len(l.entries), l.base)
	}
	for i := range files {
		if _, known := l.done[path(i)]; known != (i%2 == 1) {
			t.Errorf("file %d is known: %v", i, known)
		}
	}
	if again := entry(files - 1); again.File != path(files-1) {
		t.Errorf("the last entry has become %+v", again)
	}
	if _, err := l.Entry(t.Context(), 0, dataset.FeedState{}); err == nil {
		t.Error("an entry that is forgotten was given")
	}
	now = now.Add(2 * time.Second)
	if e := entry(files); !e.End {
		t.Errorf("a file that is there was taken up anew: %+v", e)
	}
}

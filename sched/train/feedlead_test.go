package train

import (
	"fmt"
	"os"
	"path/filepath"
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

package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"psrt/sched/coord"
	"psrt/sched/dataset"
)

const (
	// flushAfter is how long rows that fill no batch wait for more.
	flushAfter = time.Second
	// lookEvery is between two looks at directories, lookShare how many times longer
	// than a look that is at least.
	lookEvery = 200 * time.Millisecond
	lookShare = 20
	// grantBatches are read of a file before it is asked whether a pass is over.
	grantBatches = 64
	// complainEvery is between two notes on directories that cannot be listed, on files that
	// do not become whole, and two looks at what became of files that were taken up.
	complainEvery = time.Minute
	// recentFiles are the files taken up last, at which that looks.
	recentFiles = 1000
	// knownFiles are the names that are remembered though their files may be gone.
	knownFiles = 1 << 20
)

const streamPrefix = "stream/"

func streamKey(n int) string { return streamPrefix + strconv.Itoa(n) }

// leader is worker 0's feed. Its reader asks for an entry when it needs one, and that
// is when it is decided: nothing is taken up long before it is trained.
type leader struct {
	w       *worker
	now     func() time.Time
	cfg     *Stream
	watch   *dataset.Watch
	log     *StreamLog
	entries []dataset.Entry   // from base on
	base    int               // entries before that nobody asks for
	told    int               // entries that the others can hear of
	forgot  atomic.Int64      // of them, that they cannot any more; only forget writes it, whose goroutine is not the reader's
	done    map[string]int    // files taken up, by the last look that found them
	looks   int               // that were made
	known   int               // of done, from which on those are let go that are not found; knownFiles
	last    dataset.Entry     // of a file
	unsure  bool              // whether that has rows behind the range
	ready   []dataset.Arrival // whole, not taken up
	pass    int               // the last one asked about
	began   time.Time         // when it was asked about first
	came    time.Time         // when there was a file last
	trouble time.Time         // when a note said that there are none to see
	recent  []dataset.Arrival // of done, the last, as they were then
	checked time.Time         // when they were looked at
	unwhole time.Time         // since when files are not whole, or when that was told last; zero: all are
}

func newLeader(w *worker) *leader {
	return &leader{w: w, now: time.Now, cfg: w.job.Stream, watch: dataset.NewWatch(w.job.Data, seconds(w.job.Stream.Settle)), done: make(map[string]int), known: knownFiles, pass: -1}
}

// open reads what was decided before: from the log, or what a process before this one
// told.
func (l *leader) open(ctx context.Context) (err error) {
	goesOn := l.w.rank.Generation > 1 || l.w.job.Checkpoint != nil && l.w.job.Checkpoint.Resume
	if l.cfg.Log != "" && !goesOn {
		if err := keepStreamLog(l.cfg.Log); err != nil {
			return err
		}
	}
	switch {
	case l.cfg.Log != "":
		if l.log, l.entries, err = OpenStreamLog(l.cfg.Log, goesOn, StreamHead{Reading: l.w.job.Reading, MeanLabel: l.w.job.Model.MeanLabel}); err != nil {
			return err
		}
	case goesOn:
		if err := l.heard(ctx); err != nil {
			return err
		}
	}
	if at := l.w.pos.Stream; at != nil && at.Entry > len(l.entries) {
		return &InputError{fmt.Errorf("train: the job stands behind %d entries of its stream, and %s has %d: give the log that belongs to the checkpoint", at.Entry, l.cfg.Log, len(l.entries))}
	}
	l.tellUnsampled()
	for _, e := range l.entries {
		if e.File != "" {
			if _, known := l.done[e.File]; !known {
				l.takeUp(dataset.Arrival{Path: e.File, Size: e.Size})
			}
			l.last, l.unsure = e, e.Rows > 0
		}
	}
	if n := len(l.entries); n > 0 && l.entries[n-1].End && l.w.rank.Generation < 2 {
		// It was over then; this job goes on with what has come since.
		if l.log != nil {
			err = l.log.dropLast(l.entries[n-1])
		}
		l.entries = l.entries[:n-1]
	}
	l.came = l.now()
	l.checked = l.came
	return err
}

// tellUnsampled says where an older psrt has written what is read again.
func (l *leader) tellUnsampled() {
	from := 0
	if at := l.w.pos.Stream; at != nil {
		from = at.Entry
	}
	n := 0
	for _, e := range l.entries[from:] {
		if e.File != "" && e.Sample == "" {
			n++
		}
	}
	if n > 0 {
		l.w.rank.emit(Event{Note: fmt.Sprintf("the log of the stream has no sample of %d file(s) that are read again, as an older psrt wrote it: only their sizes are compared", n)})
	}
}

// takeUp notes a file that is read from now on.
func (l *leader) takeUp(a dataset.Arrival) {
	l.done[a.Path] = l.looks
	if len(l.recent) == recentFiles {
		l.recent = l.recent[:copy(l.recent, l.recent[1:])]
	}
	l.recent = append(l.recent, a)
}

func (l *leader) heard(ctx context.Context) error {
	all, _, err := l.w.rank.Coord.List(ctx, streamPrefix)
	if err != nil {
		return err
	}
	l.entries = make([]dataset.Entry, len(all))
	for _, kv := range all {
		n, err := strconv.Atoi(kv.Key[len(streamPrefix):])
		if err != nil || n < 0 || n >= len(all) {
			return fmt.Errorf("train: %s among %d entries of the stream: please report this", kv.Key, len(all))
		}
		if err := json.Unmarshal(kv.Value, &l.entries[n]); err != nil {
			return fmt.Errorf("train: %s: %w", kv.Key, err)
		}
	}
	return nil
}

// Entry decides, unless it is decided; and tells.
func (l *leader) Entry(ctx context.Context, n int, at dataset.FeedState) (e dataset.Entry, err error) {
	if at.Pass != l.pass {
		l.pass, l.began = at.Pass, l.now()
	}
	l.drop()
	if n -= l.base; n < 0 || n > len(l.entries) {
		return e, fmt.Errorf("train: entry %d of a stream that has %d, of which %d are forgotten: please report this", l.base+n, l.base+len(l.entries), l.base)
	}
	if n == len(l.entries) {
		if e, err = l.decide(ctx, at); err != nil {
			return e, err
		}
		if l.log != nil {
			if err := l.log.add(e); err != nil {
				return e, err
			}
		}
		l.entries = append(l.entries, e)
	}
	if e = l.entries[n]; e.File != "" {
		l.unsure = false // what follows it, the reader says
	}
	if n += l.base; n >= l.told {
		b, err := json.Marshal(e)
		if err != nil {
			return e, err
		}
		if _, err := l.w.rank.Coord.Put(ctx, streamKey(n), b, 0); err != nil {
			return e, err
		}
		l.told = n + 1
	}
	return e, nil
}

// drop lets go of entries that are forgotten.
func (l *leader) drop() {
	if n := int(l.forgot.Load()) - l.base; n > 0 {
		l.entries = slices.Clone(l.entries[n:])
		l.base += n
	}
}

// decide waits until there is something to say.
func (l *leader) decide(ctx context.Context, at dataset.FeedState) (dataset.Entry, error) {
	rows := int64(0)
	if l.cfg.Seconds > 0 {
		rows = grantBatches * int64(l.w.job.Batch)
	}
	for since := l.now(); ; {
		now := l.now()
		switch {
		case l.cfg.Seconds > 0 && at.Rows > 0 && now.Sub(l.began) >= seconds(l.cfg.Seconds):
			return dataset.Entry{Pass: true}, nil
		case at.More || l.unsure:
			l.last.From, l.last.Rows, l.unsure = l.last.From+l.last.Rows, rows, false
			return l.last, nil
		}
		for len(l.ready) > 0 && !l.ready[0].Same() { // it has come anew since it was seen
			l.ready = l.ready[1:]
		}
		if len(l.ready) == 0 {
			l.look(now)
		}
		l.check(now, complainEvery)
		switch {
		case len(l.ready) > 0:
			a := l.ready[0]
			l.ready, l.came = l.ready[1:], now
			l.takeUp(a)
			l.last = dataset.Entry{File: a.Path, Size: a.Size, Rows: rows}
			if id, err := dataset.Identify(a.Path); err == nil && id.Size == a.Size { // else its reader says what is wrong
				l.last.Sample = id.Sample
			}
			return l.last, nil
		case at.Pending > 0 && now.Sub(since) >= flushAfter:
			return dataset.Entry{Flush: true}, nil
		case l.cfg.Idle > 0 && now.Sub(l.came) >= seconds(l.cfg.Idle) && l.watch.Unsettled() == "":
			l.check(now, 0)
			return dataset.Entry{End: true}, nil
		}
		select {
		case <-ctx.Done():
			return dataset.Entry{}, context.Cause(ctx)
		case <-time.After(max(lookEvery, lookShare*l.now().Sub(now))):
		}
	}
}

// look looks for files. A directory that cannot be listed may come back: it is told
// of, and looked at again.
func (l *leader) look(now time.Time) {
	l.looks++
	ready, err := l.watch.Look(now, func(path string) bool {
		_, known := l.done[path]
		if known {
			l.done[path] = l.looks
		}
		return known
	})
	if err == nil {
		l.ready, l.trouble = ready, time.Time{}
		if len(l.done) > l.known {
			maps.DeleteFunc(l.done, func(path string, found int) bool {
				if found == l.looks {
					return false
				}
				_, err := os.Lstat(path) // a pattern's look does not say what it could not list
				return errors.Is(err, fs.ErrNotExist)
			})
		}
		return
	}
	if now.Sub(l.trouble) >= complainEvery {
		l.trouble = now
		l.w.rank.emit(Event{Warning: fmt.Sprintf("no new files are seen: %v; looks again", err)})
	}
}

// check tells of what is not trained and looks as if it should be: files that have changed
// since they were taken up, and one that does not become whole.
func (l *leader) check(now time.Time, every time.Duration) {
	switch path := l.watch.Unsettled(); {
	case path == "":
		l.unwhole = time.Time{}
	case l.unwhole.IsZero():
		l.unwhole = now
	case now.Sub(l.unwhole) >= complainEvery:
		l.unwhole = now
		l.w.rank.emit(Event{Warning: fmt.Sprintf("%s keeps changing, and is not trained before it has stayed as it is for %v: write files under a name that begins with a dot, and rename them when they are whole", path, l.settles())})
	}
	if now.Sub(l.checked) < every {
		return
	}
	l.checked = now
	for i := range l.recent {
		a := &l.recent[i]
		if a.Same() {
			continue
		}
		l.w.rank.emit(Event{Warning: fmt.Sprintf("%s has changed since the stream took it up with %d bytes, and is not trained again: a name is trained once; give what is new a name of its own", a.Path, a.Size)})
		if info, err := os.Stat(a.Path); err == nil {
			a.Size, a.MTime = info.Size(), info.ModTime()
		}
	}
}

func (l *leader) settles() time.Duration { return cmp.Or(seconds(l.cfg.Settle), dataset.DefaultSettle) }

// forget removes what was told of entries before one, where the log has them.
func (l *leader) forget(ctx context.Context, before int) error {
	if l.log == nil {
		return nil
	}
	for n := int(l.forgot.Load()); n < before; n++ {
		if _, err := l.w.rank.Coord.Delete(ctx, streamKey(n)); err != nil && !errors.Is(err, coord.ErrNotFound) {
			return err
		}
		l.forgot.Store(int64(n) + 1)
	}
	return nil
}

func (l *leader) close() error {
	if l.log == nil {
		return nil
	}
	return l.log.Close()
}

// follower is the feed of the other workers.
type follower struct{ coord coord.Coordinator }

func (f follower) open(context.Context) error        { return nil }
func (f follower) forget(context.Context, int) error { return nil }
func (f follower) close() error                      { return nil }

// Entry waits until worker 0 has told.
func (f follower) Entry(ctx context.Context, n int, _ dataset.FeedState) (e dataset.Entry, err error) {
	b, err := coord.Await(ctx, f.coord, streamKey(n))
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("train: %s is not understood: %w", streamKey(n), err)
	}
	return e, nil
}

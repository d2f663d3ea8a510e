package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	// complainEvery is between two notes on directories that cannot be listed.
	complainEvery = time.Minute
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
	entries []dataset.Entry
	told    int                 // entries that the others can hear of
	forgot  int                 // of them, that they cannot any more
	done    map[string]struct{} // files taken up
	last    dataset.Entry       // of a file
	unsure  bool                // whether that has rows behind the range
	ready   []dataset.Arrival   // whole, not taken up
	pass    int                 // the last one asked about
	began   time.Time           // when it was asked about first
	came    time.Time           // when there was a file last
	trouble time.Time           // when a note said that there are none to see
}

func newLeader(w *worker) *leader {
	return &leader{w: w, now: time.Now, cfg: w.job.Stream, watch: dataset.NewWatch(w.job.Data, seconds(w.job.Stream.Settle)), done: make(map[string]struct{}), pass: -1}
}

// open reads what was decided before: from the log, or what a process before this one
// told.
func (l *leader) open(ctx context.Context) (err error) {
	goesOn := l.w.rank.Generation > 1 || l.w.job.Checkpoint != nil && l.w.job.Checkpoint.Resume
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
	for _, e := range l.entries {
		if e.File != "" {
			l.done[e.File] = struct{}{}
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
	return err
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
	if n > len(l.entries) {
		return e, fmt.Errorf("train: entry %d of a stream that has %d: please report this", n, len(l.entries))
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
	if n >= l.told {
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
		if len(l.ready) == 0 {
			l.look(now)
		}
		switch {
		case len(l.ready) > 0:
			a := l.ready[0]
			l.ready, l.came = l.ready[1:], now
			l.done[a.Path] = struct{}{}
			l.last = dataset.Entry{File: a.Path, Size: a.Size, Rows: rows}
			return l.last, nil
		case at.Pending > 0 && now.Sub(since) >= flushAfter:
			return dataset.Entry{Flush: true}, nil
		case l.cfg.Idle > 0 && now.Sub(l.came) >= seconds(l.cfg.Idle):
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
	ready, err := l.watch.Look(now, func(path string) bool { _, ok := l.done[path]; return ok })
	if err == nil {
		l.ready, l.trouble = ready, time.Time{}
		return
	}
	if now.Sub(l.trouble) >= complainEvery {
		l.trouble = now
		l.w.rank.emit(Event{Note: fmt.Sprintf("no new files are seen: %v; looks again", err)})
	}
}

// forget removes what was told of entries before one, where the log has them.
func (l *leader) forget(ctx context.Context, before int) error {
	if l.log == nil {
		return nil
	}
	for ; l.forgot < before; l.forgot++ {
		if _, err := l.w.rank.Coord.Delete(ctx, streamKey(l.forgot)); err != nil && !errors.Is(err, coord.ErrNotFound) {
			return err
		}
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

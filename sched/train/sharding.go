package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/coord"
	"psrt/sched/dataset"
	"psrt/sched/ledger"
	"psrt/sched/usage"
)

// How files are dealt to workers.
const (
	ShardStatic  = "static"  // each worker has its part of every batch
	ShardDynamic = "dynamic" // workers take ranges of files as fast as they train them
)

// rangeSteps is how many steps of a mean worker a range has rows for.
const rangeSteps = 8

func (j *Job) dynamic() bool { return j.Sharding == ShardDynamic }

func (j *Job) validateSharding() error {
	switch {
	case j.Sharding == "" || j.Sharding == ShardStatic:
		return nil
	case j.Sharding != ShardDynamic:
		return fmt.Errorf("train: sharding %q, must be %s or %s", j.Sharding, ShardStatic, ShardDynamic)
	case j.Sync != ASP:
		return fmt.Errorf("train: --sharding %s with --sync %s: workers then take different numbers of steps, which only --sync %s lets them", ShardDynamic, j.Sync, ASP)
	case slices.ContainsFunc(j.modes(), func(m clock.Mode) bool { return m.Most >= 0 }):
		return fmt.Errorf("train: --sharding %s with --table-sync: workers then take different numbers of steps, which only asp lets them; leave --table-sync out", ShardDynamic)
	case j.Dataset != dataset.Queue || j.Shuffle || j.Stream != nil:
		return fmt.Errorf("train: --sharding %s is for files that are read in their order, as --dataset %s --no-shuffle does, without --stream", ShardDynamic, dataset.Queue)
	case j.reduces():
		return fmt.Errorf("train: --sharding %s with --dense %s: there workers go through their steps together; use --dense %s", ShardDynamic, j.Dense, DensePS)
	case j.Lifecycle != nil || j.Checkpoint != nil:
		return fmt.Errorf("train: --sharding %s with --accessor or --checkpoint: days and checkpoints lie between two steps of all workers, which have different ones then; use --sharding %s", ShardDynamic, ShardStatic)
	}
	return nil
}

// sharded is a worker's feed of a pass's files where ranges go to who asks first. The
// book (ledger.Ledger) of each pass is a key at the coordinator. What a worker was
// given is also written down under keys of its own, which is what a process that takes
// its place reads again, in the same order; the book has the last of them, in case the
// process died between the two.
type sharded struct {
	w     *worker
	files []dataset.Identity
	rows  int64 // of a range, the same at every worker
	pass  int   // the one that is read
	base  int   // the number of its first entry
	given []ledger.Grant
}

const ledgerPrefix = "ledger/"

func bookKey(pass int) string             { return fmt.Sprintf("%s%d/book", ledgerPrefix, pass) }
func givenPrefix(pass, worker int) string { return fmt.Sprintf("%s%d/%d/", ledgerPrefix, pass, worker) }
func givenKey(pass, worker, n int) string { return fmt.Sprintf("%s%09d", givenPrefix(pass, worker), n) }
func (w *worker) ownRows() int {
	return min(w.share.Last*w.share.Micro, w.share.Batch) - w.share.First*w.share.Micro
}

// openSharded makes the reader of what this worker takes.
func (w *worker) openSharded(ctx context.Context, busy *usage.Clock) (*dataset.Reader, error) {
	files, err := dataset.Open(ctx, w.job.Data, w.job.Reading)
	if err != nil {
		return nil, err
	}
	if err := sameFiles(files, w.job.Files.Data); err != nil {
		return nil, err
	}
	own := w.ownRows()
	f := &sharded{w: w, files: files.Identities(), rows: int64(rangeSteps * max(1, w.job.Batch/w.job.Workers)), pass: -1}
	src, err := dataset.NewStream(f, 0, files.Options())
	if err != nil {
		return nil, err
	}
	src.NoteNames(w.names)
	w.warnOf(src)
	return src.NewReader(ctx, dataset.Whole(own, w.share.Micro), dataset.ReaderOptions{Threads: w.job.Threads, Limit: w.limit, Busy: busy, Begun: w.stages.reads})
}

// Entry is dataset.Feed's.
func (f *sharded) Entry(ctx context.Context, n int, at dataset.FeedState) (e dataset.Entry, err error) {
	if at.Pass != f.pass {
		if err := f.begin(ctx, at.Pass, n); err != nil {
			return e, err
		}
	}
	i := n - f.base
	if i < 0 || i > len(f.given) {
		return e, fmt.Errorf("train: entry %d of a pass that has %d: please report this", i, len(f.given))
	}
	if i == len(f.given) {
		g, ok, err := f.take(ctx, i, i > 0 && !at.More)
		if err != nil {
			return e, err
		}
		if !ok {
			return dataset.Entry{End: true}, nil
		}
		f.given = append(f.given, g)
	}
	g := f.given[i]
	file := &f.files[g.File]
	return dataset.Entry{File: file.Path, Size: file.Size, Sample: file.Sample, From: g.Range * f.rows, Rows: f.rows}, nil
}

// begin reads what processes before this one were given of the pass.
func (f *sharded) begin(ctx context.Context, pass, base int) error {
	f.pass, f.base, f.given = pass, base, nil
	if f.w.rank.Generation < 2 {
		return nil
	}
	all, _, err := f.w.rank.Coord.List(ctx, givenPrefix(pass, f.w.rank.Index))
	if err != nil {
		return err
	}
	f.given = make([]ledger.Grant, len(all))
	for i, kv := range all {
		if err := json.Unmarshal(kv.Value, &f.given[i]); err != nil || kv.Key != givenKey(pass, f.w.rank.Index, i) || f.given[i].File < 0 || f.given[i].File >= len(f.files) {
			return fmt.Errorf("train: %s among %d ranges of worker %d is not understood (%w): please report this", kv.Key, len(all), f.w.rank.Index, err)
		}
	}
	return nil
}

// take asks the book for range n, and writes it down.
func (f *sharded) take(ctx context.Context, n int, ended bool) (g ledger.Grant, ok bool, err error) {
	c, key := f.w.rank.Coord, bookKey(f.pass)
	for {
		book, revision := ledger.New(len(f.files), f.w.job.Workers), int64(0)
		kv, err := c.Get(ctx, key)
		if err == nil {
			book, revision = new(ledger.Ledger), kv.Revision
			err = json.Unmarshal(kv.Value, book)
		} else if errors.Is(err, coord.ErrNotFound) {
			err = nil
		}
		if err != nil {
			return g, false, err
		}
		if err := book.Check(len(f.files), f.w.job.Workers); err != nil {
			return g, false, err
		}
		if g, ok, err = book.Take(f.w.rank.Index, n, ended); err != nil {
			return g, false, err
		}
		b, err := json.Marshal(book)
		if err != nil {
			return g, false, err
		}
		_, err = c.CompareAndPut(ctx, key, b, revision, 0)
		if again(ctx, err) {
			continue // what was given to this one is given again
		}
		if err != nil || !ok || f.w.rank.Generation == 0 {
			return g, ok, err
		}
		b, err = json.Marshal(g)
		if err != nil {
			return g, ok, err
		}
		_, err = c.Put(ctx, givenKey(f.pass, f.w.rank.Index, n), b, 0)
		return g, ok, err
	}
}

// forget lets go of the books of a pass that all have stood behind.
func (w *worker) forgetBook(ctx context.Context, pass int) error {
	if !w.job.dynamic() || pass < 0 {
		return nil
	}
	mine, _, err := w.rank.Coord.List(ctx, givenPrefix(pass, w.rank.Index))
	if err != nil {
		return err
	}
	keys := []string{}
	for _, kv := range mine {
		keys = append(keys, kv.Key)
	}
	if w.rank.Index == 0 {
		keys = append(keys, bookKey(pass))
	}
	for _, key := range keys {
		if _, err := w.rank.Coord.Delete(ctx, key); err != nil && !errors.Is(err, coord.ErrNotFound) {
			return err
		}
	}
	return nil
}

// inGlobal says of a step of a worker's own rows what it would be among the steps of
// all: gradients are means over the global batch, of which a worker has its share.
func (w *worker) inGlobal(from steps) steps {
	if !w.job.dynamic() {
		return from
	}
	own := uint64(w.ownRows())
	batch := uint64(w.share.Batch)
	return func() (*dataset.Step, error) {
		step, err := from()
		if step != nil {
			step.Rows = int((uint64(step.Rows)*batch + own - 1) / own)
			step.FirstRow = step.FirstRow * batch / own
		}
		return step, err
	}
}

package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"psrt/sched/client"
	"psrt/sched/dataset"
	"psrt/sched/pipe"
	"psrt/sched/psmsg"
	"psrt/sched/train/metric"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

type tableSpec = table.Spec

// run trains, evaluates and collects the figures.
func (w *worker) run(ctx context.Context) (*Result, error) {
	begin := time.Now()
	w.stages.hold(stageCompute) // this goroutine runs the line, and computes with the pool
	var data *dataset.Reader
	var err error
	if w.job.Stream != nil {
		data, err = w.openStream(ctx, &w.meter.io)
	} else if w.job.dynamic() {
		data, err = w.openSharded(ctx, &w.meter.io)
	} else {
		var parts *dataset.Parts
		if parts, err = w.openParts(ctx); err != nil {
			return nil, err
		}
		defer w.rows.Close() // behind the reader, which asks it
		data, w.files.data, err = w.open(ctx, w.job.Data, w.job.Files.Data, dataset.ReaderOptions{Global: w.job.GlobalShuffle, Parts: parts, Busy: &w.meter.io, Limit: w.limit})
	}
	if err != nil {
		return nil, err
	}
	defer data.Close()
	var valid, test *dataset.Reader
	if len(w.job.Valid) > 0 {
		if valid, w.files.valid, err = w.open(ctx, w.job.Valid, w.job.Files.Valid, dataset.ReaderOptions{}); err != nil {
			return nil, err
		}
		defer valid.Close()
	}
	if len(w.job.Test) > 0 {
		if test, _, err = w.open(ctx, w.job.Test, w.job.Files.Test, dataset.ReaderOptions{}); err != nil {
			return nil, err
		}
		defer test.Close()
	}
	res := &Result{Sync: w.job.Sync, Model: w.job.Model.Kind, Servers: w.job.Servers, Workers: w.job.Workers, Threads: w.job.Threads,
		DataNotes: w.job.DataNotes}
	if w.job.Sync == SSP {
		res.Staleness = &w.job.Staleness
	}
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	if err := w.collective.begin(ctx); err != nil {
		return nil, err
	}
	if err := w.halved.begin(ctx); err != nil {
		return nil, err
	}
	if err := w.carried.begin(ctx); err != nil {
		return nil, err
	}
	if w.feed != nil {
		if err := w.feed.open(ctx); err != nil {
			return nil, err
		}
	}
	if err := w.trainAll(ctx, data, valid, res); err != nil {
		return nil, err
	}
	if err := w.finish(ctx, valid, test, res); err != nil {
		return nil, err
	}
	res.WallSeconds = time.Since(begin).Seconds()
	return res, nil
}

// open makes a reader of this worker's share, as the job says and opts adds. The files must be
// the known ones.
func (w *worker) open(ctx context.Context, paths []string, known *dataset.FileSet, opts dataset.ReaderOptions) (*dataset.Reader, []dataset.Identity, error) {
	src, err := dataset.Open(ctx, paths, w.job.Reading)
	if err != nil {
		return nil, nil, err
	}
	if err := sameFiles(src, known); err != nil {
		return nil, nil, err
	}
	src.NoteNames(w.names)
	w.warnOf(src)
	opts.Threads, opts.Mode, opts.Shuffle, opts.Seed = w.job.Threads, w.job.Dataset, w.job.Shuffle, w.job.Seed
	opts.Begun = w.stages.reads
	r, err := src.NewReader(ctx, w.share, opts)
	return r, src.Identities(), err
}

// warnOf has the job told of what is wrong with the source's files and can be read over. All
// workers read all files, unless they take them from a book.
func (w *worker) warnOf(src *dataset.Source) {
	if w.rank.Index == 0 || w.job.dynamic() {
		src.OnWarning(func(text string) { w.rank.emit(Event{Warning: text}) })
	}
}

// passReport is what each worker tells of a pass.
type passReport struct {
	Metrics  *metric.Accumulator `json:"metrics"`
	Seconds  float64             `json:"seconds"`
	Examples int64               `json:"examples"`
	// NotFinite is how many scores of a job that scores are not finite.
	NotFinite int64 `json:"not_finite,omitempty"`
	// Before are the examples, of all workers, that the pass had when the job was
	// resumed; Clock and Steps are where the worker stands behind the pass.
	Before int64  `json:"before,omitempty"`
	Clock  uint64 `json:"clock"`
	Steps  uint64 `json:"steps"`
	// Next is where the next pass of a stream begins.
	Next dataset.Cursor `json:"next,omitzero"`
	// Life is the table's behind the pass.
	Life lifeAt `json:"life,omitzero"`
	// Largest is the largest value of a feature that the worker read in the pass.
	Largest extreme `json:"largest,omitzero"`
}

// trainAll runs the epochs with early stopping and keeps the best. It begins
// where the job stands.
func (w *worker) trainAll(ctx context.Context, data, valid *dataset.Reader, res *Result) error {
	p := &w.pos
	res.Epochs, res.Examples, res.TrainSeconds, w.epochRows = p.Epochs, p.Examples, p.TrainSeconds, p.EpochRows
	over := func() bool { return valid != nil && w.job.Patience > 0 && p.Since >= w.job.Patience }
	var q *queue
	for p.Epoch < w.job.Epochs && !over() {
		e := p.Epoch
		said, err := w.said(ctx, trainName(e)) // by a process before this one
		if err != nil {
			return err
		}
		mine := passReport{Metrics: metric.NewAccumulator(w.job.Model.Task)}
		if said != nil {
			if err := json.Unmarshal(said, &mine); err != nil {
				return err
			}
			w.clock, p.Steps, p.Life = mine.Clock, mine.Steps, w.newer(mine.Life, mine.Clock)
			if w.job.Compress.Keeps() {
				if err := w.collective.skip(w.clock); err != nil {
					return err
				}
			}
			if w.rows != nil { // outside bsp others may still need rows for the pass
				if err := data.Load(); err != nil {
					return err
				}
			}
		} else {
			if q == nil {
				if err := data.Epoch(e); err != nil {
					return err
				}
				if mine.Before, mine.Examples, err = w.goOnAt(data); err != nil {
					return err
				}
				q = w.newQueue(ctx, w.inGlobal(epochs(data, e, w.job.Epochs-1, w.job.Stream != nil)), &w.meter.io, w.job.LookAhead)
				defer func() {
					data.Cancel() // a stream may have nothing to give for hours
					q.end()
				}()
			}
			if err := w.trainPass(ctx, q, e, &mine); err != nil {
				return err
			}
			mine.Next, _ = data.Start(e + 1)
		}
		ep, err := w.endEpoch(ctx, e, mine, res)
		if err != nil {
			return err
		}
		if ep == nil {
			break // the stream is over
		}
		if valid != nil {
			acc, slots, err := w.evaluate(ctx, valid, validName(e))
			if err != nil {
				return err
			}
			ep.Valid, ep.ValidSlots = acc.Report(), slots
			w.showFigures("valid", ep.Valid)
			score := score(ep.Valid)
			ep.Best = p.Best < 0 || score > p.BestScore || ep.Valid.Examples == 0 // no rows choose: the newest
			if ep.Best {
				p.Best, p.BestScore, p.Since = e, score, 0
				if err := w.keep(ctx, e); err != nil {
					return err
				}
			} else {
				p.Since++
			}
		} else {
			p.Best = e
		}
		w.job.warn(ep, res.Epochs, ep.largest)
		res.Epochs = append(res.Epochs, *ep)
		if w.rank.Index == 0 && said == nil {
			w.rank.emit(Event{Epoch: ep})
			for _, text := range ep.Warnings {
				w.rank.emit(Event{Warning: text})
			}
		}
		p.Epoch, p.Step = e+1, 0
		p.Epochs, p.Examples, p.TrainSeconds, p.EpochRows = res.Epochs, res.Examples, res.TrainSeconds, w.epochRows
		if err := w.endStreamPass(ctx, mine.Next); err != nil {
			return err
		}
		if err := errors.Join(w.stand(ctx), w.forget(ctx, p.Epoch-2), w.forgetBook(ctx, p.Epoch-2)); err != nil {
			return err
		}
	}
	w.saver.settle()
	if err := w.collective.check(ctx); err != nil {
		return err
	}
	if err := w.lastLook(ctx); err != nil {
		return err
	}
	if err := w.endLife(ctx); err != nil {
		return err
	}
	w.lastSave(ctx)
	if w.saver != nil {
		res.Checkpoints = &w.saver.sum
	}
	if valid != nil && p.Best < 0 && p.Epoch > 0 { // the best one was lost, and no epoch followed: see branch
		p.Best = p.Epoch - 1
		if err := w.keep(ctx, p.Best); err != nil {
			return err
		}
	}
	res.BestEpoch = p.Best + 1
	if p.Best != p.Epoch-1 {
		return w.restore(ctx)
	}
	return nil
}

// trainPass trains this worker's part of a pass.
func (w *worker) trainPass(ctx context.Context, q *queue, e int, mine *passReport) error {
	start, counted := time.Now(), w.meter.examples.Load()
	clear(w.extremes)
	if err := w.epoch(ctx, q, e, mine.Metrics); err != nil {
		return err
	}
	if err := w.pushKept(ctx, e); err != nil {
		return err
	}
	if err := w.halved.flush(ctx, false); err != nil {
		return err
	}
	mine.Examples += w.meter.examples.Load() - counted
	mine.Seconds = time.Since(start).Seconds()
	w.pushed = time.Now()
	mine.Clock, mine.Steps, mine.Life = w.clock, w.pos.Steps, w.pos.Life
	for i := range w.extremes {
		mine.Largest = mine.Largest.larger(w.extremes[i])
	}
	return nil
}

// endEpoch brings the workers' parts together.
func (w *worker) endEpoch(ctx context.Context, e int, mine passReport, res *Result) (*Epoch, error) {
	slots, err := w.slotReports(ctx, trainName(e))
	if err != nil {
		return nil, err
	}
	reports, err := gather(ctx, w, trainName(e), mine)
	if err == nil {
		err = w.halved.flush(ctx, true)
	}
	if err != nil {
		return nil, err
	}
	if w.job.Stream != nil && e > 0 && len(res.Epochs) > 0 && !anyRows(reports) {
		return nil, nil
	}
	if err := w.endPass(ctx, e); err != nil {
		return nil, err
	}
	ep := &Epoch{Epoch: e + 1, Rows: reports[0].Before, TrainSlots: slots}
	total := metric.NewAccumulator(w.job.Model.Task)
	for _, r := range reports {
		if err := total.Merge(r.Metrics); err != nil {
			return nil, err
		}
		ep.Rows += r.Examples
		ep.Seconds = max(ep.Seconds, r.Seconds)
		ep.largest = ep.largest.larger(r.Largest)
	}
	if ep.Rows == 0 {
		return nil, fmt.Errorf("train: no examples in %v", w.job.Data)
	}
	ep.Train = total.Report()
	w.showFigures("train", ep.Train)
	w.epochRows = ep.Rows
	res.Examples += ep.Rows
	res.TrainSeconds += ep.Seconds
	return ep, nil
}

// anyRows says whether a pass had any.
func anyRows(reports []passReport) bool {
	return slices.ContainsFunc(reports, func(r passReport) bool { return r.Before > 0 || r.Examples > 0 })
}

// evaluate runs the reader's rows through the model as the servers have it,
// and merges all workers' counts.
func (w *worker) evaluate(ctx context.Context, r *dataset.Reader, name string) (*metric.Accumulator, []metric.SlotReport, error) {
	acc := metric.NewAccumulator(w.job.Model.Task)
	if said, err := w.said(ctx, name); err != nil {
		return nil, nil, err
	} else if said == nil { // else gather has what the process before has counted
		if err := w.predictAll(ctx, r, acc); err != nil {
			return nil, nil, err
		}
	}
	slots, err := w.slotReports(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := gather(ctx, w, name, passReport{Metrics: acc})
	if err != nil {
		return nil, nil, err
	}
	total := metric.NewAccumulator(w.job.Model.Task)
	for _, r := range all {
		if err := total.Merge(r.Metrics); err != nil {
			return nil, nil, err
		}
	}
	return total, slots, nil
}

// predictAll scores this worker's rows of a reader.
func (w *worker) predictAll(ctx context.Context, r *dataset.Reader, acc *metric.Accumulator) error {
	if err := r.Epoch(0); err != nil {
		return err
	}
	q := w.newQueue(ctx, oneEpoch(r), nil, 0)
	defer q.end()
	line := w.job.newLine()
	return pipe.Run(ctx, &line, &scoring{streaming{w, q}, acc})
}

// predict scores a batch's leaves.
func (w *worker) predict(b *batch, acc *metric.Accumulator) error {
	errs := make([]error, w.pool.threads)
	w.pool.each(len(b.step.Leaves), func(thread, i int) {
		n := b.step.Leaves[i].Len()
		if n == 0 {
			return
		}
		b.leaf(i, w.share.Micro, w.share.First, 0, &w.leaves[i])
		b.grads[i].Preds = grow(b.grads[i].Preds, n)
		if err := w.scr[thread].Predict(&w.leaves[i], b.grads[i].Preds); err != nil {
			errs[thread] = err
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range b.step.Leaves {
		if n := b.step.Leaves[i].Len(); n > 0 {
			acc.Add(b.grads[i].Preds[:n], b.step.Leaves[i].Labels)
			if err := CountSlots(w.slots, b.grads[i].Preds[:n], &b.step.Leaves[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// figures are those of the result: of the test data, else of the epoch that was kept, else
// of the model as it began.
func (w *worker) figures(ctx context.Context, valid, test *dataset.Reader, res *Result) (*metric.Report, error) {
	kept := slices.IndexFunc(res.Epochs, func(e Epoch) bool { return e.Epoch == res.BestEpoch })
	if test == nil && kept >= 0 {
		best := res.Epochs[kept]
		if best.Valid != nil {
			res.EvaluatedOn, res.Slots = onValid, best.ValidSlots
			return best.Valid, nil
		}
		res.EvaluatedOn, res.Slots = onTrain, best.TrainSlots
		return best.Train, nil
	}
	of := test
	switch res.EvaluatedOn = onTest; {
	case test != nil:
	case valid != nil:
		of, res.EvaluatedOn = valid, onValid
	default:
		var err error
		if of, _, err = w.open(ctx, w.job.Data, w.job.Files.Data, dataset.ReaderOptions{}); err != nil {
			return nil, err
		}
		defer of.Close()
		res.EvaluatedOn = onTrain
	}
	acc, slots, err := w.evaluate(ctx, of, "test")
	if err != nil {
		return nil, err
	}
	res.Slots = slots
	return acc.Report(), nil
}

// finish tests the model, collects what everybody used, saves and leaves.
func (w *worker) finish(ctx context.Context, valid, test *dataset.Reader, res *Result) error {
	report, err := w.figures(ctx, valid, test, res)
	if err != nil {
		return err
	}
	res.Evaluated, res.Invalid, res.Warnings = report.Counted(), report.Invalid, res.epochWarnings()
	if res.Epochs == nil {
		res.Epochs = []Epoch{} // in JSON a list
	}
	if res.EvaluatedOn == onTest || len(res.Epochs) == 0 { // figures that no epoch has
		own := figureWarnings(res.EvaluatedOn, report)
		if len(res.Epochs) > 0 {
			own = EvalWarnings(res.EvaluatedOn, report)
		}
		res.Warnings = slices.Compact(append(res.Warnings, own...))
		for _, text := range own {
			if w.rank.Index == 0 {
				w.rank.emit(Event{Warning: text})
			}
		}
	}
	res.AUC, res.LogLoss, res.RMSE, res.MAE, res.COPC = report.AUC, report.LogLoss, report.RMSE, report.MAE, report.COPC
	res.Accuracy, res.ActualCTR, res.PredictedCTR = report.Accuracy, report.ActualCTR, report.PredictedCTR
	res.AUCErrorBound = report.AUCErrorBound
	if err := w.lead(ctx, "final", func() error { return w.finalModel(ctx, res) }); err != nil {
		return err
	}
	if w.rank.Index == 0 && res.Digest == "" { // the process before had it, and told nobody
		var err error
		if res.Digest, err = w.digest(ctx); err != nil {
			return err
		}
	}
	return w.usage(ctx, res)
}

// workerUsage is what each worker tells at the end.
type workerUsage struct {
	RSS    int64      `json:"rss"`
	CPU    float64    `json:"cpu"`
	Stages [3]float64 `json:"stages"` // io, comm, compute seconds
	// Pipeline has its waits in seconds.
	Pipeline pipe.Summary       `json:"pipeline"`
	Reached  []string           `json:"reached"`
	Copied   client.CopiedBytes `json:"copied"`
	Hot      *client.HotStats   `json:"hot,omitempty"`
	Took     []Takeover         `json:"took,omitempty"`
	Moved    int64              `json:"moved,omitempty"`
	Examples int64              `json:"examples,omitempty"`
	Affinity *Affinity          `json:"affinity,omitempty"`
	Halved   *halvedUse         `json:"halved,omitempty"`
	Carried  *carriedUse        `json:"carried,omitempty"`
}

// serversOf is what each server's process has used. All groups that it leads tell the same,
// and one that leads none does not tell.
func serversOf(stats []psmsg.StatsReply) (ranks []RankUsage) {
	used := map[int]RankUsage{}
	for _, st := range stats {
		u := used[st.Server]
		used[st.Server] = RankUsage{Rank: fmt.Sprintf("server %d", st.Server), PeakRSSBytes: max(u.PeakRSSBytes, st.PeakRSSBytes), CPUSeconds: max(u.CPUSeconds, st.CPUSeconds)}
	}
	for _, i := range slices.Sorted(maps.Keys(used)) {
		ranks = append(ranks, used[i])
	}
	return ranks
}

// usage fills in times, memory and transports, and has every worker leave.
func (w *worker) usage(ctx context.Context, res *Result) error {
	if err := w.halved.end(ctx); err != nil {
		return err
	}
	if err := w.carried.end(ctx); err != nil {
		return err
	}
	rss, cpu := usage.Process()
	all, err := gather(ctx, w, "usage", workerUsage{Halved: w.halved.use(), RSS: rss, CPU: cpu, Reached: w.carried.reached(w.client), Carried: w.carried.use(), Copied: w.client.Copied(), Hot: w.hotStats(), Took: w.takeovers(), Moved: w.rows.Moved(), Examples: w.meter.examples.Load(), Affinity: w.stages.report(),
		Stages: w.seconds(), Pipeline: w.pipeline()})
	if err != nil {
		return err
	}
	for i := range w.carried.servers(w.client) {
		var st psmsg.StatsReply
		if err := w.client.CallServer(ctx, i, psmsg.MethodStats, struct{}{}, &st); err != nil {
			return err
		}
		res.ServerUse = append(res.ServerUse, st)
		res.Features += st.Rows
		res.StalenessSeen.Add(st.Staleness)
		res.TableSync = psmsg.AddSyncs(res.TableSync, st.Syncs...)
		if i == 0 {
			if res.Life, err = w.lifeResult(ctx); err != nil {
				return err
			}
		}
	}
	res.Ranks = append(res.Ranks, serversOf(res.ServerUse)...)
	var io, comm, compute float64
	var lines []pipe.Summary
	for i, u := range all {
		res.Ranks = append(res.Ranks, RankUsage{Rank: fmt.Sprintf("worker %d", i), PeakRSSBytes: u.RSS, CPUSeconds: u.CPU, Copied: &u.Copied, Hot: u.Hot, RowsMoved: u.Moved, Examples: u.Examples, Affinity: u.Affinity})
		for _, t := range u.Reached {
			res.Transfers = append(res.Transfers, fmt.Sprintf("worker %d to %s", i, t))
		}
		res.Takeovers = append(res.Takeovers, u.Took...)
		io += u.Stages[0]
		comm += u.Stages[1]
		compute += u.Stages[2]
		lines = append(lines, u.Pipeline)
	}
	w.heterUse(res, all)
	res.Combined = w.combinedUse(res, all)
	for _, r := range res.Ranks {
		res.PeakRSSBytes = max(res.PeakRSSBytes, r.PeakRSSBytes)
	}
	res.Storage = w.storageUse(res)
	res.Transport = w.carried.transport(w.client)
	if span := res.TrainSeconds * float64(w.job.Workers); span > 0 {
		res.ExamplesPerS = float64(res.Examples) / res.TrainSeconds
		res.Compress = w.compressUse()
		res.DenseSums = w.collective.use()
		res.Pipeline = pipe.Merge(lines, res.TrainSeconds)
		res.Stages = Stages{IO: io / span, Comm: comm / span, Compute: compute / span}
		res.Stages.Overlap = res.Pipeline.Overlap()
	}
	if err := w.writeTrace(ctx); err != nil {
		return err
	}
	if _, err := gather(ctx, w, leavingName, true); err != nil {
		return err
	}
	w.carried.settle()
	if !w.carried.follows() {
		if err := w.client.Leave(ctx); err != nil {
			return err
		}
	}
	if _, err := gather(ctx, w, "left", true); err != nil {
		return err
	}
	// Each of them says so: the first may have died meanwhile.
	_, err = w.rank.Coord.Put(ctx, KeyDone, []byte("1"), 0)
	return err
}

package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"psrt/sched/dataset"
	"psrt/sched/psmsg"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// position is where a job stands before a step.
type position struct {
	Epoch int    `json:"epoch"` // counted from 0
	Step  int    `json:"step"`  // of the epoch
	Steps uint64 `json:"steps"` // since the job was first begun

	// Best is the best epoch so far, -1 for none, Since how many epochs ago it was.
	Best      int     `json:"best"`
	BestScore float64 `json:"best_score"`
	BestModel string  `json:"best_model,omitempty"` // its digest; "": not known
	Since     int     `json:"since"`

	Epochs       []Epoch `json:"epochs,omitempty"` // finished
	Examples     int64   `json:"examples"`
	TrainSeconds float64 `json:"train_s"`
	EpochRows    int64   `json:"epoch_rows"`
	Life         lifeAt  `json:"life,omitzero"`

	// Stream is the place in the stream, of a job that reads one.
	Stream *dataset.Cursor `json:"stream,omitempty"`

	Job pattern `json:"job"`

	// Ahead is what the rows have of Steps and later ones, where workers need not
	// keep step.
	Ahead *ahead `json:"ahead,omitempty"`

	// Files are those that were read, of a job without a stream; nil: an older psrt wrote it.
	Files *Files `json:"file_sets,omitempty"`

	// Top: workers had topk, and what they had not sent belongs to this.
	Top bool `json:"topk,omitempty"`
}

// ahead is good for jobs of one layout: it names lanes and workers. A carrier's pushes are
// the sums of whom it carries.
type ahead struct {
	Servers  int          `json:"servers"`
	Lanes    int          `json:"lanes"`
	Workers  int          `json:"workers"`
	Carriers []int        `json:"carriers,omitempty"` // by worker; none: all push themselves
	Dense    string       `json:"dense,omitempty"`
	Heter    int          `json:"heter,omitempty"`
	Of       []psmsg.Lead `json:"of"`
}

// ahead is what servers told of a cut.
func (j *Job) ahead(replies []psmsg.SaveReply, carriers []int) *ahead {
	a := &ahead{Servers: j.Servers, Lanes: j.Lanes, Workers: j.Workers, Carriers: carriers, Dense: j.Dense, Heter: j.Heter}
	for _, r := range replies {
		a.Of = append(a.Of, r.Leads...)
	}
	if len(a.Of) == 0 {
		return nil
	}
	return a
}

// leads is what is to be left out when it comes again, for the job as it is now.
func (a *ahead) leads(j *Job, carriers []int) (leads []psmsg.Lead, fit bool) {
	switch {
	case a == nil:
		return nil, true
	case a.Servers != j.Servers || a.Lanes != j.Lanes || a.Workers != j.Workers || !slices.Equal(a.Carriers, carriers) || j.bsp():
		return nil, false
	}
	leads = a.Of
	if slices.ContainsFunc(leads, func(l psmsg.Lead) bool { // steps of bsp are whole or not there
		return l.Table == psmsg.DenseLead && j.mode(DenseTable).BSP() || l.Table == EmbeddingID && j.mode(EmbeddingTable).BSP()
	}) {
		return nil, false
	}
	if j.reduces() || a.Dense == DenseAllReduce || a.Dense == DenseMixed || j.Heter > 0 || a.Heter > 0 {
		// A push of dense values is of one worker here and of others there.
		leads = slices.DeleteFunc(slices.Clone(leads), func(l psmsg.Lead) bool { return l.Table == psmsg.DenseLead })
	}
	return leads, true
}

// layout is the one for which a is good, in words.
func (a *ahead) layout() string {
	own := "that each push for themselves (--combine off)"
	if len(a.Carriers) > 0 {
		own = "on the same hosts (--combine host)"
	}
	return fmt.Sprintf("%d servers of %d lanes and %d workers %s", a.Servers, a.Lanes, a.Workers, own)
}

// most is by how many steps the fastest worker was ahead.
func (a *ahead) most() (steps uint64) {
	for _, x := range a.Of {
		steps = max(steps, x.Steps)
	}
	return steps
}

// pattern is what of a job must not change between its parts: all else may, the
// number of servers and workers among it.
type pattern struct {
	Data, Valid      []string
	Reading          dataset.Options
	Dataset          string
	Shuffle          bool
	GlobalShuffle    bool `json:",omitempty"`
	Model, Optimizer any
	DenseOptimizer   any
	Batch            int
	Seed             uint64
	// What a lifecycle's rules do is done anew to rows that nobody looked at since.
	Lifecycle *table.Lifecycle `json:",omitempty"`
	Schedule  table.Schedule   `json:",omitzero"`
}

func (j *Job) pattern() pattern {
	return pattern{Data: j.Data, Valid: j.Valid, Reading: j.Reading, Dataset: j.Dataset, Shuffle: j.Shuffle, GlobalShuffle: j.GlobalShuffle,
		Model: j.Model, Optimizer: j.Optimizer, DenseOptimizer: j.DenseOptimizer, Batch: j.Batch, Seed: j.Seed,
		Lifecycle: j.Lifecycle, Schedule: j.Schedule}
}

// differs names the first thing in which two jobs are not the same, "" for none.
func (p pattern) differs(o pattern) string {
	flat := func(p pattern) (m map[string]any) {
		b, _ := json.Marshal(p) // of what came from JSON, or goes there
		_ = json.Unmarshal(b, &m)
		return m
	}
	a, b := flat(p), flat(o)
	for _, name := range []string{"Data", "Valid", "Reading", "Dataset", "Shuffle", "GlobalShuffle", "Model", "Optimizer", "DenseOptimizer", "Batch", "Seed", "Lifecycle", "Schedule"} {
		if what := difference(name, a[name], b[name]); what != "" {
			return what
		}
	}
	return ""
}

// difference names the first value in which two trees of JSON differ, "" for none.
func difference(name string, a, b any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if isMap && both {
		keys := slices.Collect(maps.Keys(x))
		keys = slices.AppendSeq(keys, maps.Keys(y))
		slices.Sort(keys)
		for _, key := range keys {
			if what := difference(name+"."+key, x[key], y[key]); what != "" {
				return what
			}
		}
	}
	l, isList := a.([]any)
	m, both := b.([]any)
	if isList && both && len(l) == len(m) {
		for i := range l {
			if what := difference(fmt.Sprintf("%s[%d]", name, i), l[i], m[i]); what != "" {
				return what
			}
		}
	}
	what := fmt.Sprintf("%s was %s, now it is %s", name, shownValue(a), shownValue(b))
	if name == meanLabelName {
		what += ", which is the mean of the first rows' labels: the data have changed"
	}
	return what
}

// meanLabelName is the one value of a pattern that comes from the rows.
const meanLabelName = "Model.mean_label"

// shownValue is a value for a message: as JSON, and cut.
func shownValue(v any) string {
	const most = 120
	if v == nil {
		return "not given"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "..."
	}
	return string(b)
}

// resumption is what worker 0 tells all.
type resumption struct {
	From     uint64    `json:"from"` // the checkpoint's number, 0 for a start from nothing
	Position *position `json:"position,omitempty"`
	Run      string    `json:"run,omitempty"`    // the id of its run
	Unsent   bool      `json:"unsent,omitempty"` // workers go on with what is beside it
	Failure  string    `json:"failure,omitempty"`
	BadInput bool      `json:"bad_input,omitempty"`
}

// resume has the servers load the newest checkpoint, if the job is to go on from
// one and there is one, and returns where it stands.
func (w *worker) resume(ctx context.Context) (position, error) {
	begin := position{Best: -1, Job: w.job.pattern()}
	c := w.job.Checkpoint
	if c == nil {
		return begin, nil
	}
	var mine resumption
	said, err := w.said(ctx, "resume")
	if err != nil {
		return begin, err
	}
	switch {
	case w.rank.Index > 0:
	case said != nil: // the others may have begun to train
		if err := w.inheritSaver(ctx); err != nil {
			return begin, err
		}
	default:
		if mine, err = w.reload(ctx, c); err != nil {
			var bad *InputError
			mine = resumption{Failure: err.Error(), BadInput: errors.As(err, &bad)}
		}
	}
	all, err := gather(ctx, w, "resume", mine)
	if err != nil {
		return begin, err
	}
	switch lead := all[0]; {
	case lead.BadInput:
		return begin, &InputError{errors.New(lead.Failure)}
	case lead.Failure != "":
		return begin, errors.New(lead.Failure)
	case lead.Position != nil:
		if lead.Unsent {
			err = w.takeUnsent(ctx, lead.From)
		}
		return *lead.Position, err
	}
	return begin, nil
}

// reload is worker 0's part.
func (w *worker) reload(ctx context.Context, c *Checkpoint) (r resumption, err error) {
	if err := w.job.CheckPlaces(ctx); err != nil {
		return r, err
	}
	w.runID = ckpt.NewRun()
	defer func() { r.Run = w.runID }()
	if w.saver, err = newSaver(ctx, w); err != nil || !c.Resume {
		return r, err
	}
	m, err := c.open(ctx)
	if c.From == 0 && errors.Is(err, ckpt.ErrNoModel) {
		w.rank.emit(Event{Note: fmt.Sprintf("there is no checkpoint in %s yet: training begins anew", c.Dir)})
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Position = &position{}
	if err := json.Unmarshal(m.Position, r.Position); err != nil || r.Position.Job.Batch == 0 {
		return r, &InputError{fmt.Errorf("train: checkpoint %d in %s does not say where its job stood (%.60q): it is not one of psrt train; give another --checkpoint", m.Number, c.Dir, m.Position)}
	}
	if err := w.compareFiles(r.Position, m.Number); err != nil { // other data differ in more than their files
		return r, err
	}
	r.Position.Files = nil
	if what := r.Position.Job.differs(w.job.pattern()); what != "" {
		return r, &InputError{fmt.Errorf("train: checkpoint %d in %s is of another job: %s; give the same flags, or another --checkpoint", m.Number, c.Dir, what)}
	}
	if r.Unsent, err = w.findUnsent(m, r.Position); err != nil {
		return r, err
	}
	leads, fit := r.Position.Ahead.leads(w.job, w.carriers)
	if !fit {
		a := r.Position.Ahead
		w.rank.emit(Event{Warning: fmt.Sprintf("checkpoint %d in %s has some examples of the next %d steps, which are trained again; --sync ssp or asp with %s would leave them out",
			m.Number, c.Dir, a.most(), a.layout())})
	}
	r.Position.Ahead = nil
	if _, err := callAll[struct{}](ctx, w, psmsg.MethodLoad, psmsg.LoadRequest{Dir: c.Dir, Generation: m.Number, Saved: true, KeepOpen: true, Leads: leads}); err != nil {
		return r, c.explainLoad(ctx, m, err)
	}
	if err := w.saver.h.Resume(ctx, m.Number); err != nil {
		return r, err
	}
	w.runID = m.Run
	w.saver.deltas = len(m.Chain()) - 1
	w.branch(ctx, m, r.Position)
	w.saver.at, w.saver.sum.ResumedFrom, w.saver.sum.Newest = r.Position.Steps, m.Number, m.Number
	w.saver.pass = r.Position.Epoch
	r.From = m.Number
	w.rank.emit(Event{Note: fmt.Sprintf("goes on from checkpoint %d in %s: epoch %d, step %d%s", m.Number, c.Dir, r.Position.Epoch+1, r.Position.Step, partly(r.Position))})
	return r, nil
}

// SavedDataset is how the job read its data that a job is to go on from, "" where none
// can be told: resume says why.
func SavedDataset(ctx context.Context, c *Checkpoint) string {
	if c == nil || !c.Resume {
		return ""
	}
	m, err := c.open(ctx)
	if err != nil {
		return ""
	}
	var p position
	if json.Unmarshal(m.Position, &p) != nil {
		return ""
	}
	return p.Job.Dataset
}

// partly says that an epoch's figures will not be of all of it: they are added up
// where the rows are read, and a checkpoint does not have them.
func partly(p *position) string {
	if p.Step == 0 {
		return ""
	}
	return "; that epoch's training figures are of the rows from here on"
}

// skip reads past the steps of an epoch that are done, and counts their examples,
// all workers' together.
func skip(r *dataset.Reader, steps int) (examples int64, err error) {
	for i := range steps {
		step, err := r.Next()
		if err == io.EOF {
			return 0, &InputError{fmt.Errorf("train: the checkpoint was taken %d steps into an epoch that has %d now: the data have changed", steps, i)}
		}
		if err != nil {
			return 0, err
		}
		examples += int64(step.Rows)
		step.Release()
	}
	return examples, nil
}

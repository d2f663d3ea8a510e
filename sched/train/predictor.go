package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/sched/dataset"
	"psrt/sched/kv"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/train/metric"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// runPredictor is a worker's life in a job that scores. Worker 0 has the result.
func runPredictor(ctx context.Context, job *Job, rank Rank) (res *Result, err error) {
	w := &worker{job: job, rank: &rank}
	begin := time.Now()
	s, err := openScorer(ctx, job, &rank)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	before, err := s.Rows()
	if err != nil {
		return nil, err
	}
	src, err := dataset.Open(ctx, job.Data, job.Reading)
	if err != nil {
		return nil, err
	}
	if err := sameFiles(src, job.Files.Data); err != nil {
		return nil, err
	}
	acc := metric.NewAccumulator(job.Model.Task)
	w.slots, w.names = w.newSlots(), job.newNames()
	src.NoteNames(w.names)
	w.warnOf(src)
	var files *whole // worker 0's
	if rank.Index == 0 {
		if files, err = job.Predict.openWhole(s); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, files.end(false)) }()
	}
	out, clean, err := job.Predict.openParts(s, rank.Index)
	defer clean()
	if err == nil {
		err = s.Score(ctx, src, ScoreOptions{Threads: job.Threads, Rank: rank.Index, Ranks: job.Workers, Run: out.flush}, func(l *ScoredLeaf) error {
			if job.Predict.Labelled {
				acc.Add(l.Preds, l.Rows.Labels)
				if err := CountSlots(w.slots, l.Preds, l.Rows); err != nil {
					return err
				}
			}
			return out.Add(l)
		})
	}
	if err = out.End(err); err != nil {
		return nil, err
	}
	slots, err := w.slotReports(ctx, "scored")
	if err != nil {
		return nil, err
	}
	all, err := gather(ctx, w, "scored", passReport{Metrics: acc, Examples: out.rows, NotFinite: out.bad})
	if err != nil {
		return nil, err
	}
	if err := w.lead(ctx, "together", func() error { return job.Predict.putTogether(files, job.Workers) }); err != nil {
		return nil, err
	}
	after, err := s.Rows()
	if err != nil {
		return nil, err
	}
	total, rows := metric.NewAccumulator(job.Model.Task), int64(0)
	notFinite := int64(0)
	for _, r := range all {
		if err := total.Merge(r.Metrics); err != nil {
			return nil, err
		}
		rows += r.Examples
		notFinite += r.NotFinite
	}
	// Everybody has counted before the servers end.
	if _, err := gather(ctx, w, leavingName, true); err != nil {
		return nil, err
	}
	if _, err := rank.Coord.Put(ctx, KeyDone, []byte("1"), 0); err != nil {
		return nil, err
	}
	r := &Result{Model: job.Model.Kind, Servers: job.Servers, Workers: job.Workers, Threads: job.Threads, Slots: slots, Features: after, DataNotes: job.DataNotes,
		Scored: &Scored{Rows: rows, NotFinite: notFinite, Seconds: time.Since(begin).Seconds(), Features: before, FeaturesAfter: after}}
	if job.Predict.Labelled {
		r.Scored.Figures = total.Report()
	}
	return r, nil
}

// openScorer has the model where the job says that its rows are.
func openScorer(ctx context.Context, job *Job, rank *Rank) (*Scorer, error) {
	p := job.Predict
	cfg := rank.Reach
	cfg.Worker, cfg.Looks = rank.Index, true
	switch {
	case job.Servers > 0:
		loading := *rank // they say where they are when they have the model's rows
		loading.Timeout = max(rank.timeout(), wholeTimeout)
		addrs, err := serverAddrs(ctx, &loading, job.Servers)
		if err != nil {
			return nil, err
		}
		cfg.Servers, cfg.Host = addrs, rank.Host
	case len(p.Live) > 0:
		cfg.Servers, cfg.TokenFile = p.Live, p.TokenFile
	default:
		return LoadScorer(ctx, p.Model, p.Generation)
	}
	return LoadScorerOver(ctx, p.Model, p.Generation, cfg)
}

// LoadScorerOver reads a model's description and dense values, and pulls rows from the
// servers that cfg names; their dense values, too, where they have any.
func LoadScorerOver(ctx context.Context, dir string, number uint64, cfg kv.Config) (*Scorer, error) {
	s, _, err := describeScorer(ctx, dir, number)
	if err != nil {
		return nil, err
	}
	p := &pulled{}
	if s.rows != nil { // an export's are mapped
		p.beneath = s.rows
	}
	s.rows = p
	if err := p.open(ctx, s, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// pulled is a table at servers.
type pulled struct {
	c       *kv.Client
	table   *kv.Table
	beneath scorerRows
}

// looks is how rows are asked for that somebody else may be training: none is made, and
// no clock waited for.
var looks = kv.Options{ReadOnly: true, AnyClock: true}

func (p *pulled) open(ctx context.Context, s *Scorer, cfg kv.Config) (err error) {
	if p.c, err = kv.Open(ctx, cfg); err != nil {
		return badConfig(err)
	}
	if p.table, err = p.c.Table(EmbeddingTable); err != nil {
		return badConfig(err)
	}
	if dim := p.table.Spec().Dim; dim != s.model.RowDim() {
		return &InputError{fmt.Errorf("train: the servers' table %q has rows of %d floats, the model's have %d: give the --model that they serve", EmbeddingTable, dim, s.model.RowDim())}
	}
	switch n := p.c.DenseLen(); n {
	case 0:
	case len(s.dense):
		s.dense = make([]float32, n) // an export's is mapped
		return p.c.PullDense(s.dense, looks)
	default:
		return &InputError{fmt.Errorf("train: the servers have %d dense values, the model %d: give the --model that they serve", n, len(s.dense))}
	}
	return nil
}

// badConfig marks what the user can mend.
func badConfig(err error) error {
	switch kv.CodeOf(err) {
	case kv.BadConfig, kv.NoTable, kv.Token, kv.Mismatch:
		return &InputError{err}
	}
	return err
}

func (p *pulled) gather(keys []uint64, dst []float32) error { return p.table.Pull(keys, dst, looks) }

// count is that of the servers, of all their tables.
func (p *pulled) count() (int64, error) {
	b, err := p.c.StatsJSON(0)
	if err != nil {
		return 0, err
	}
	var r kv.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return 0, err
	}
	n := int64(0)
	for i, text := range r.Servers {
		var st psmsg.StatsReply
		if err := json.Unmarshal(text, &st); err != nil {
			return 0, fmt.Errorf("train: what server %d counts is not understood: %w; run the same psrt version everywhere", i, err)
		}
		n += st.Rows
	}
	return n, nil
}

func (p *pulled) close() error {
	if p.c != nil {
		p.c.Close()
	}
	if p.beneath != nil {
		return p.beneath.close()
	}
	return nil
}

// runRows is a server's life in a job that scores: it begins with its share of the
// model's rows, and serves them until the workers are done.
func runRows(ctx context.Context, job *Job, rank Rank) error {
	p := job.Predict
	saved, err := ckpt.OpenAt(ctx, p.Model, p.Generation)
	if err != nil {
		return &InputError{err}
	}
	spec := saved.Spec(tableID)
	if spec == nil {
		return &InputError{fmt.Errorf("train: the model in %s has no table %q: give one of psrt train", p.Model, EmbeddingTable)}
	}
	placement, err := job.placement(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var s *server.Server
	s, err = server.New(server.Config{
		ID: rank.Index, Map: placement, Host: rank.Host, Listen: rank.Listen, Node: rank.Node, MaxBytes: job.MaxBytes,
		Workers: job.Workers, Staleness: server.Async, Tables: []table.Spec{*spec},
		Trainers: server.Trainers{Directory: func(ctx context.Context) (*place.Map, error) {
			addrs, err := serverAddrs(ctx, &rank, job.Servers)
			if err != nil {
				return nil, err
			}
			return job.placement(addrs)
		}},
		Note: func(note string) {
			rank.emit(Event{Note: fmt.Sprintf("server %d: %s", rank.Index, note)})
		},
		Warn: func(warning string) {
			rank.emit(Event{Warning: fmt.Sprintf("server %d: %s", rank.Index, warning)})
		},
		Second: rank.Index > 0,
		Begin: func() error {
			if err := s.Load(psmsg.LoadRequest{Dir: p.Model, Generation: p.Generation}); err != nil {
				return err
			}
			return sayWhere(ctx, rank, s) // no worker's time to connect runs before
		},
		OnWorkerLost: func(worker int, cause error) {
			cancel(&PeerLost{job.MemberName(worker) + " broke its connection and did not come back", cause})
		},
	})
	if err != nil {
		return err
	}
	return serveOn(ctx, rank, s)
}

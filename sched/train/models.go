package train

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"psrt/sched/dataset"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/train/model"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// ModelInfo is what a model directory says about itself, beside its rows.
type ModelInfo struct {
	Model     model.Spec      `json:"model"`
	Reading   dataset.Options `json:"reading"` // how the training data were read
	Seed      uint64          `json:"seed"`
	Epoch     int             `json:"epoch"` // counted from 1
	Optimizer table.Optimizer `json:"optimizer"`
}

// modelDir is where the best epoch's model is kept while training goes on.
func (w *worker) modelDir() string {
	if w.job.Out != "" {
		return w.job.Out
	}
	if c := w.job.Checkpoint; c != nil {
		return c.Dir + ".best" // a job that is resumed finds it
	}
	return w.job.Scratch
}

// keep has worker 0 save the model as it is after epoch e.
func (w *worker) keep(ctx context.Context, e int) error {
	return w.lead(ctx, keepName(e), func() error {
		digest, err := w.save(ctx, e)
		w.pos.BestModel = digest
		return err
	})
}

// save writes all servers' parts into the model directory and commits it.
func (w *worker) save(ctx context.Context, e int) (digest string, err error) {
	in, err := ckpt.Begin(w.modelDir())
	if err != nil {
		return "", err
	}
	defer in.Abort()
	replies, err := callAll[psmsg.SaveReply](ctx, w, psmsg.MethodSave, psmsg.SaveRequest{Dir: in.Path()})
	if err != nil {
		return "", err
	}
	m, err := w.manifest(e, replies)
	if err != nil {
		return "", err
	}
	return m.Digest, in.Commit(m)
}

// manifest describes the model that servers have written their parts of.
func (w *worker) manifest(e int, replies []psmsg.SaveReply) (m ckpt.Manifest, err error) {
	var sum table.Digest
	for _, r := range replies {
		var mine []ckpt.Part
		if err := json.Unmarshal(r.Parts, &mine); err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, mine...)
		if r.Digest == "" { // a delta
			continue
		}
		if err := addHex(&sum, r.Digest); err != nil {
			return m, err
		}
		m.Digest = sum.String()
	}
	if m.Lifecycle, err = psmsg.MergeLifecycles(replies); err != nil {
		return m, fmt.Errorf("train: the servers do not agree: %w", err)
	}
	slices.SortFunc(m.Parts, func(a, b ckpt.Part) int { return int(a.Table) - int(b.Table) })
	m.Slots, m.Tables = place.DefaultSlots, []table.Spec{w.spec}
	m.Dense = []ckpt.DenseSpec{{Name: "dense", ID: server.DenseID, Elements: int64(w.model.Layout().Total)}}
	m.Meta, err = json.Marshal(ModelInfo{Model: w.job.Model, Reading: w.job.Reading, Seed: w.job.Seed, Epoch: e + 1, Optimizer: w.job.Optimizer})
	return m, err
}

// restore has the servers go back to the model that was kept.
func (w *worker) restore(ctx context.Context) error {
	return w.lead(ctx, "restore", func() error {
		_, err := callAll[struct{}](ctx, w, psmsg.MethodLoad, psmsg.LoadRequest{Dir: w.modelDir()})
		return err
	})
}

// finalModel fills in the digest and writes the model if it was asked for and
// is not there already.
func (w *worker) finalModel(ctx context.Context, res *Result) error {
	if w.job.Out != "" && (len(w.job.Valid) == 0 || len(res.Epochs) == 0) { // no epoch has kept one
		digest, err := w.save(ctx, res.BestEpoch-1)
		res.Digest = digest
		return err
	}
	var err error
	res.Digest, err = w.digest(ctx)
	return err
}

// digest is all servers' together.
func (w *worker) digest(ctx context.Context) (string, error) {
	replies, err := callAll[psmsg.DigestReply](ctx, w, psmsg.MethodDigest, struct{}{})
	if err != nil {
		return "", err
	}
	var sum table.Digest
	for _, r := range replies {
		if err := addHex(&sum, r.Digest); err != nil {
			return "", err
		}
	}
	return sum.String(), nil
}

// wholeTimeout bounds saving or loading a whole model; see the server's.
const wholeTimeout = 30 * time.Minute

// callAll calls a control method of all servers at once.
func callAll[T any](ctx context.Context, w *worker, method string, req any) ([]T, error) {
	return callEach[T](ctx, w.client, method, req)
}

// caller is a client, or what calls beside it.
type caller interface {
	Servers() int
	CallServer(ctx context.Context, server int, method string, req, resp any) error
}

func callEach[T any](ctx context.Context, c caller, method string, req any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	out := make([]T, c.Servers())
	errs := make(chan error, len(out))
	for i := range out {
		go func() { errs <- c.CallServer(ctx, i, method, req, &out[i]) }()
	}
	var first error
	for range out {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return out, first
}

func addHex(sum *table.Digest, s string) error {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(sum) {
		return fmt.Errorf("train: a server's digest is %q, want %d bytes in hex", s, len(sum))
	}
	sum.Add(table.Digest(b))
	return nil
}

// InputError marks an error as the input's fault.
type InputError struct{ Err error }

func (e *InputError) Error() string  { return e.Err.Error() }
func (e *InputError) Unwrap() error  { return e.Err }
func (e *InputError) BadInput() bool { return true }

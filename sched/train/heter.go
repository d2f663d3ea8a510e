package train

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"psrt/sched/heter"
	"psrt/sched/train/model"
	"psrt/sched/tree"
)

// In a job with dense ranks (--heter) workers read, have the rows and compute the sparse
// half of the model; the dense ranks compute the other half and have the dense
// parameters. To the servers all of them are members of one clock: members 0 to Workers-1
// are the workers, which push rows and nothing dense; those after them are the dense
// ranks, which push dense gradients and no rows. Both tick each step.
//
// The leaves of a batch are dealt twice, to the workers and to the dense ranks, by the
// same tree: so a leaf has one of each, and what either kind adds up is whole subtrees.

// Members is how many ranks the servers' clocks wait for.
func (j *Job) Members() int { return j.Workers + j.Heter }

// World is how many ranks a job begins with.
func (j *Job) World() int { return j.Servers + j.Members() }

// IsDense says whether a member is a dense rank.
func (j *Job) IsDense(member int) bool { return member >= j.Workers }

// MemberName is how people know a member.
func (j *Job) MemberName(member int) string {
	if j.IsDense(member) {
		return fmt.Sprintf("dense rank %d", member-j.Workers)
	}
	return fmt.Sprintf("worker %d", member)
}

// merges is the order in which servers add what the members push: rows that of the
// workers' part, dense gradients that of the dense ranks'. Who pushes nothing of a kind
// is absent in it.
func (j *Job) merges() ([]tree.Merge, error) {
	all, err := j.top(j.Workers)
	if err != nil || j.Heter == 0 {
		return all, err
	}
	dense, err := j.top(j.Heter)
	at := int32(j.Workers)
	for _, m := range dense {
		all = append(all, tree.Merge{Dst: m.Dst + at, Src: m.Src + at})
	}
	return append(all, tree.Merge{Dst: 0, Src: at}), err
}

// top is the part of the tree above the shares of so many ranks.
func (j *Job) top(ranks int) ([]tree.Merge, error) {
	_, shares, err := j.shares(ranks)
	if err != nil {
		return nil, err
	}
	return tree.Top(shares)
}

func (j *Job) validateHeter() error {
	switch {
	case j.Heter == 0:
		return nil
	case j.Heter < 0 || j.Heter > 1024:
		return fmt.Errorf("train: --dense-ranks %d, want 1 to 1024", j.Heter)
	case j.Dense != "" && j.Dense != DensePS:
		return fmt.Errorf("train: --heter with --dense %s: dense ranks push to the servers; use --dense %s", j.Dense, DensePS)
	case j.Compress.Keeps():
		return fmt.Errorf("train: --heter with --compress topk or --merge-pushes: the step that pushes what was kept has no activations; use none, fp16, int8 or auto")
	case j.OnWorkerLoss == LossContinue:
		return fmt.Errorf("train: --heter with --on-worker-loss %s: a worker has no layers to go on with for a dense rank; use %s, or %s", LossContinue, LossRestart, LossEnd)
	case j.Clip != (Clip{}):
		return fmt.Errorf("train: --heter with clipped gradients: a micro-batch's gradient is in two processes; leave --clip-norm and --clip-value out")
	case j.oneInBSP():
		return fmt.Errorf("train: --heter with one table in bsp and the other not: a dense rank would wait for leaves that wait for it; give both tables one kind of consistency")
	case j.Sharding == ShardDynamic:
		return fmt.Errorf("train: --heter with --sharding %s: workers would make other numbers of steps; use --sharding %s", ShardDynamic, ShardStatic)
	case j.Audit != nil:
		return fmt.Errorf("train: --heter with --audit: the dense ranks' pushes are not recorded; leave one of them out")
	}
	if _, leaves := tree.Leaves(j.Batch); j.Heter > leaves {
		return fmt.Errorf("train: --batch %d is cut into %d micro-batches, too few for --dense-ranks %d; use at most --dense-ranks %d, or a larger batch", j.Batch, leaves, j.Heter, leaves)
	}
	m, err := model.New(j.Model)
	if err != nil {
		return err
	}
	if micro, _ := tree.Leaves(j.Batch); int64(micro)*int64(linkFloats(m)) > math.MaxInt32/4 {
		return fmt.Errorf("train: --heter: %d examples of %d floats are more than a message carries; lower --batch or --dim", micro, linkFloats(m))
	}
	return nil
}

// What lies between the halves, for each example: one way its label, the sparse part of
// its logit and its input; the other way their gradients, and what was predicted where
// the label was.
const linkColumns = 2

func linkFloats(m *model.Model) int { return linkColumns + m.Input() }

// kindTrain is the one kind of message.
const kindTrain = 1

// linkShape is what lies between a worker and a dense rank: the leaves that both have.
// There may be none.
func (j *Job) linkShape(m *model.Model, worker, dense int) (heter.Shape, bool, error) {
	a, err := j.share(worker)
	if err != nil {
		return heter.Shape{}, false, err
	}
	b, err := j.share(j.Workers + dense)
	s := heter.Shape{First: max(a.First, b.First), Last: min(a.Last, b.Last), Slots: j.linkSlots(), Floats: a.Micro * linkFloats(m)}
	return s, s.First < s.Last, err
}

// linkSlots is how many steps may be between the halves: all that a line has pulled or
// not pushed; and those that are kept for a process that takes another's place.
func (j *Job) linkSlots() int {
	n := j.sets(j.newLine().Depth.Most())
	if j.Survives() {
		n += keptSteps
	}
	return n
}

// columns are a message's parts: two of one float an example, and the input's.
func columns(floats []float32, n, input int) (first, second, x []float32) {
	return floats[:n:n], floats[n : 2*n : 2*n], floats[2*n : 2*n+n*input]
}

func denseKey(dense int) string { return fmt.Sprintf("dense/%d", dense) }

// hubOptions are the same at both ends.
func (j *Job) hubOptions(rank *Rank, peers string) heter.Options {
	opt := heter.Options{Node: rank.Node, PeerKind: peers, Timeout: rank.timeout(), Silence: j.Silence()}
	if j.Survives() && rank.Generation > 0 {
		opt.Again = &heter.Again{Generation: rank.Generation, For: lostFor}
	}
	return opt
}

// HeterUse is what became of the ranks of both kinds; see Result.
type HeterUse struct {
	DenseRanks int `json:"dense_ranks"`
	// BytesUp are activations, BytesDown their gradients.
	BytesUp   uint64 `json:"bytes_up"`
	BytesDown uint64 `json:"bytes_down"`
	// WorkersBusy and DenseBusy are the shares of the training time in which the ranks
	// of a kind computed, on average; WorkersWait in which workers waited for gradients
	// of activations and had nothing else to do.
	WorkersBusy float64  `json:"workers_busy"`
	DenseBusy   float64  `json:"dense_busy"`
	WorkersWait float64  `json:"workers_wait"`
	Transports  []string `json:"transports"`
	// Layers is where ranks with a device computed, and why no longer.
	Layers []string `json:"layers,omitempty"`
}

// denseReport is what a dense rank tells the workers in the end.
type denseReport struct {
	RSS     int64         `json:"rss"`
	CPU     float64       `json:"cpu"`
	Busy    time.Duration `json:"busy"`
	Reached []string      `json:"reached"`
	Took    []Takeover    `json:"took,omitempty"`
	Layers  []string      `json:"layers,omitempty"`
}

// halvedUse is what a worker tells of them, and of itself.
type halvedUse struct {
	Up   uint64              `json:"up"`
	Down uint64              `json:"down"`
	Busy time.Duration       `json:"busy"`
	Wait time.Duration       `json:"wait"`
	Told map[int]denseReport `json:"told"`
	Ways []string            `json:"ways"`
}

func (a *halved) use() *halvedUse {
	if a == nil {
		return nil
	}
	u := &halvedUse{Busy: a.busy, Wait: a.wait, Told: a.said}
	u.Up, u.Down = a.hub.Bytes()
	for _, l := range a.hub.Links() {
		u.Ways = append(u.Ways, fmt.Sprintf("worker %d to %s: %s", a.w.rank.Index, l.Peer(), l.Transport()))
	}
	return u
}

// heterUse brings together what the ranks of both kinds tell.
func (w *worker) heterUse(res *Result, all []workerUsage) {
	if w.job.Heter == 0 {
		return
	}
	h := &HeterUse{DenseRanks: w.job.Heter}
	told := map[int]denseReport{}
	var busy, wait, dense time.Duration
	for _, u := range all {
		h.BytesUp += u.Halved.Up
		h.BytesDown += u.Halved.Down
		h.Transports = append(h.Transports, u.Halved.Ways...)
		busy += u.Halved.Busy
		wait += u.Halved.Wait
		maps.Copy(told, u.Halved.Told)
	}
	for _, i := range slices.Sorted(maps.Keys(told)) {
		r := told[i]
		dense += r.Busy
		h.Layers = append(h.Layers, r.Layers...)
		res.Takeovers = append(res.Takeovers, r.Took...)
		res.Ranks = append(res.Ranks, RankUsage{Rank: w.job.MemberName(w.job.Workers + i), PeakRSSBytes: r.RSS, CPUSeconds: r.CPU})
		for _, t := range r.Reached {
			res.Transfers = append(res.Transfers, fmt.Sprintf("dense rank %d to %s", i, t))
		}
	}
	if s := res.TrainSeconds; s > 0 {
		workers := s * float64(w.job.Workers)
		h.WorkersBusy, h.WorkersWait = busy.Seconds()/workers, wait.Seconds()/workers
		h.DenseBusy = dense.Seconds() / s / float64(w.job.Heter)
	}
	res.Heter = h
}

package train

import (
	"errors"
	"fmt"

	"psrt/sched/audit"
	"psrt/sched/client"
	"psrt/sched/clock"
	"psrt/sched/compress"
	"psrt/sched/dataset"
	"psrt/sched/densemap"
	"psrt/sched/densesplit"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/sched/train/model"
	"psrt/sched/tree"
	"psrt/tiers/hbm/pick"
	"psrt/tiers/table"
)

// Consistency modes.
const (
	BSP = "bsp"
	SSP = "ssp"
	ASP = "asp"
)

// How servers look at who sends how much; see server.Watch.
const (
	WatchAuto     = "auto"
	WatchCounters = "counters"
	WatchOff      = "off"
)

// Job describes a training job. Every rank works from the same one.
type Job struct {
	Data    []string        `json:"data"`
	Valid   []string        `json:"valid,omitempty"`
	Test    []string        `json:"test,omitempty"`
	Reading dataset.Options `json:"reading"`
	// Files are those that Data, Valid and Test stand for.
	Files Files `json:"files,omitzero"`
	// DataNotes are lines for people on how those files are read: skipped files, no header.
	DataNotes []string `json:"data_notes,omitempty"`
	// Dataset is "memory" (read once, kept, shuffled every epoch) or "queue"
	// (read anew each epoch in file order).
	Dataset string `json:"dataset"`
	Shuffle bool   `json:"shuffle"`
	// GlobalShuffle lets a row come to any place of an epoch, not only to its place in
	// any batch; workers give each other rows for that.
	GlobalShuffle bool `json:"global_shuffle,omitempty"`
	// MetricsBy is a field by whose values figures are told, too; nil: none.
	MetricsBy *uint16 `json:"metrics_by,omitempty"`
	// Sharding is how files are dealt to workers: ShardStatic, "" too, or ShardDynamic.
	Sharding string `json:"sharding,omitempty"`
	// Stream is how directories are read into which files keep coming; nil: what is in
	// them when the job begins is read, Epochs times.
	Stream *Stream `json:"stream,omitempty"`

	Model     model.Spec      `json:"model"`
	Optimizer table.Optimizer `json:"optimizer"`
	// Lifecycle is that of the sparse table, nil: none.
	Lifecycle *table.Lifecycle `json:"lifecycle,omitempty"`
	// Schedule is when days end, of a table with a lifecycle; Serving is where the
	// models for serving go that are made then, "" is nowhere.
	Schedule table.Schedule `json:"schedule,omitzero"`
	Serving  string         `json:"serving,omitempty"`
	// BeginAnew lets the job begin anew where another run has saved; see CheckPlaces.
	BeginAnew      bool            `json:"begin_anew,omitempty"`
	DenseOptimizer table.Optimizer `json:"dense_optimizer"`

	Batch     int    `json:"batch"`
	Epochs    int    `json:"epochs"`   // 0: the model as it begins
	Patience  int    `json:"patience"` // 0: no early stop
	Seed      uint64 `json:"seed"`
	Sync      string `json:"sync"`
	Staleness int    `json:"staleness"`
	// StalenessLeast lets the bound of SSP move, from there up to Staleness; nil: it
	// stays. TableSync is of the tables that have another mode than the job's.
	StalenessLeast *int                  `json:"staleness_least,omitempty"`
	TableSync      map[string]clock.Mode `json:"table_sync,omitempty"`

	Servers int `json:"servers"`
	Workers int `json:"workers"`
	Threads int `json:"threads"`
	Lanes   int `json:"lanes"` // per server
	// Replicas is how many servers have each row; 0 and 1: one. Groups is the number
	// of chains, 0 where servers have lanes instead; see Chained.
	Replicas int `json:"replicas,omitempty"`
	Groups   int `json:"groups,omitempty"`
	// AllowSameHost lets replicas of a group share a host.
	AllowSameHost bool `json:"allow_same_host,omitempty"`
	// Read is where workers pull from where there are replicas: ReadHead, "" too, or
	// ReadAny.
	Read string `json:"read,omitempty"`
	// Dense is how dense gradients travel: DensePS, "" too, DenseAllReduce or DenseMixed.
	Dense string `json:"dense,omitempty"`
	// Collective is what adds where workers do: CollectiveRing, "" too, or CollectiveNCCL.
	Collective string `json:"collective,omitempty"`
	// DenseMeasured is what DenseMixed would measure; nil: it does.
	DenseMeasured *densesplit.Measured `json:"dense_measured,omitempty"`
	// DenseBucket is how long the calls are that workers add the vector in, in bytes, 0 for
	// one call; nil: it is measured.
	DenseBucket *int `json:"dense_bucket,omitempty"`
	// Combine has the workers of a host pull and push as one: CombineOff, "" too,
	// CombineHost, or CombineAuto.
	Combine string `json:"combine,omitempty"`
	// Heter is how many ranks have the dense layers, 0: workers have them; see halved.
	Heter int `json:"heter,omitempty"`
	// DenseDevice is where these compute them, a kind as Device.Kind has one, or "": on the
	// processor.
	DenseDevice string `json:"dense_device,omitempty"`
	// Hot is the rows that workers keep; not in BSP.
	Hot client.Hot `json:"hot,omitzero"`
	// Compress is how gradients travel.
	Compress compress.Choice `json:"compress,omitzero"`
	// Clip bounds gradients.
	Clip Clip `json:"clip,omitzero"`
	// OnWorkerLoss is what follows from the death of a worker: LossEnd, which "" is too,
	// LossRestart or LossContinue. WorkerTimeout is the silence, in seconds, that is
	// taken for it; 0: WorkerTimeout.
	OnWorkerLoss  string  `json:"on_worker_loss,omitempty"`
	WorkerTimeout float64 `json:"worker_timeout_s,omitempty"`
	MaxBytes      int64   `json:"max_bytes"`
	// LookAhead is how many steps before its pull a worker announces a step's keys;
	// 0: never.
	LookAhead int `json:"look_ahead,omitempty"`
	// Storage is where rows lie that do not fit into MaxBytes; nil: all are in
	// memory.
	Storage *Storage `json:"storage,omitempty"`
	// Device is where rows of coming batches lie, over memory and disks; nil: there.
	Device *pick.Device `json:"device,omitempty"`
	// Checkpoint is where and how often snapshots of the running job are written;
	// nil: never.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Trace has each worker keep what happens in some steps; nil: none does.
	Trace *Trace `json:"trace,omitempty"`
	// Audit has workers and lanes record for psrt audit; nil: nobody records.
	Audit *audit.Config `json:"audit,omitempty"`
	// Watch is how servers look at who sends how much: WatchAuto, WatchCounters,
	// or WatchOff, which "" is too.
	Watch string `json:"watch,omitempty"`

	// Flags is what rank 0 was asked, by the name of the flag, where ranks are
	// started by hand: each compares what it was given itself.
	Flags map[string]string `json:"flags,omitempty"`

	// Predict makes the job one that scores Data; Model and Reading are the model's then,
	// and all that is about training is not looked at. nil: it trains.
	Predict *Predict `json:"predict,omitempty"`

	Out     string `json:"out,omitempty"` // model directory
	Scratch string `json:"scratch"`       // for the best epoch's model when Out is empty
}

// staleness is the bound in the server's terms.
func (j *Job) staleness() int {
	switch j.Sync {
	case BSP:
		return 0
	case SSP:
		return j.Staleness - max(0, j.Compress.Merge-1) // workers send so much later by themselves
	}
	return server.Async
}

func (j *Job) watch() server.Watch {
	return map[string]server.Watch{WatchAuto: server.WatchAuto, WatchCounters: server.WatchCounters}[j.Watch]
}

// Validate checks what can be checked without looking at files.
func (j *Job) Validate() error {
	if j.Predict != nil {
		return j.validatePredict()
	}
	switch {
	case len(j.Data) == 0:
		return fmt.Errorf("train: no training data: give --data")
	case j.Servers < 1 || j.Workers < 1 || j.Threads < 1 || j.Lanes < 1:
		return fmt.Errorf("train: %d servers, %d workers, %d threads, %d lanes: each must be at least 1", j.Servers, j.Workers, j.Threads, j.Lanes)
	case j.Batch < 1:
		return fmt.Errorf("train: batch %d, must be at least 1", j.Batch)
	case j.Epochs < 0:
		return fmt.Errorf("train: --epochs %d, must not be negative", j.Epochs)
	case j.Epochs == 0 && j.Stream != nil:
		return fmt.Errorf("train: --epochs 0 with --stream: a stream ends with its files; leave one of the two out")
	case j.Sync != BSP && j.Sync != SSP && j.Sync != ASP:
		return fmt.Errorf("train: sync %q, must be %s, %s or %s", j.Sync, BSP, SSP, ASP)
	case j.Watch != "" && j.Watch != WatchAuto && j.Watch != WatchCounters && j.Watch != WatchOff:
		return fmt.Errorf("train: watch %q, must be %s, %s or %s", j.Watch, WatchAuto, WatchCounters, WatchOff)
	case j.LookAhead < 0 || j.LookAhead > server.AheadSteps/2:
		return fmt.Errorf("train: looking %d steps ahead, want 0 to %d", j.LookAhead, server.AheadSteps/2)
	case j.Staleness < 0:
		return fmt.Errorf("train: staleness %d, must not be negative", j.Staleness)
	case j.Staleness > 0 && j.Sync != SSP:
		return fmt.Errorf("train: staleness %d is for --sync ssp, not %s", j.Staleness, j.Sync)
	}
	if _, leaves := tree.Leaves(j.Batch); j.Workers > leaves {
		return fmt.Errorf("train: --batch %d is cut into %d micro-batches, too few for --workers %d; use at most --workers %d, or --batch %d",
			j.Batch, leaves, j.Workers, leaves, BatchFor(j.Workers))
	}
	if err := j.validateChains(); err != nil {
		return err
	}
	if err := j.validateModes(); err != nil {
		return err
	}
	if err := j.Clip.validate(); err != nil {
		return err
	}
	if err := j.validateHot(); err != nil {
		return err
	}
	if err := j.Stream.validate(j); err != nil {
		return err
	}
	if err := j.validateSharding(); err != nil {
		return err
	}
	if err := j.validateLoss(); err != nil {
		return err
	}
	if err := j.validateCompress(); err != nil {
		return err
	}
	if err := j.validateDense(); err != nil {
		return err
	}
	if err := errors.Join(j.validateHeter(), j.validateDenseDevice()); err != nil {
		return err
	}
	if err := j.validateCombine(); err != nil {
		return err
	}
	if err := j.Storage.validate(j.MaxBytes); err != nil {
		return err
	}
	if err := j.Device.Validate(j.Lanes, "--lanes"); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if err := j.Checkpoint.validate(j); err != nil {
		return err
	}
	if err := j.Audit.Validate(); err != nil {
		return err
	}
	if err := j.Trace.validate(); err != nil {
		return err
	}
	if err := j.validateLife(); err != nil {
		return err
	}
	for _, o := range []table.Optimizer{j.Optimizer, j.DenseOptimizer} {
		if err := o.Validate(); err != nil {
			return err
		}
	}
	return j.Model.Validate()
}

// BatchFor is a batch for so many workers where none is asked for: one for up to
// tree.MinLeaves of them, a leaf for each beyond.
func BatchFor(workers int) int { return tree.MaxMicro * max(tree.MinLeaves, workers) }

// shares cuts the global batch into leaves and deals them to so many ranks.
func (j *Job) shares(ranks int) (micro int, shares []tree.Share, err error) {
	micro, leaves := tree.Leaves(j.Batch)
	shares, err = tree.Shares(leaves, ranks)
	return micro, shares, err
}

// share is the part of one worker, or dense rank, in the reader's terms.
func (j *Job) share(member int) (dataset.Share, error) {
	ranks := j.Workers
	if j.IsDense(member) {
		member, ranks = member-j.Workers, j.Heter
	}
	micro, shares, err := j.shares(ranks)
	if err != nil {
		return dataset.Share{}, err
	}
	return dataset.Share{Batch: j.Batch, Micro: micro, First: shares[member].First, Last: shares[member].Last}, nil
}

// EmbeddingTable is the name of the one sparse table of all models.
const EmbeddingTable = "embedding"

// EmbeddingID is its number.
const EmbeddingID = 1

// table describes the sparse table.
func (j *Job) table(m *model.Model) table.Spec {
	return table.Spec{Name: EmbeddingTable, ID: EmbeddingID, Dim: m.RowDim(), Init: m.RowInit(), Optimizer: j.Optimizer, Lifecycle: j.Lifecycle}
}

// denseRanges translates the model's layout.
func denseRanges(m *model.Model) []densemap.Range {
	var out []densemap.Range
	for _, t := range m.Layout().Tensors {
		out = append(out, densemap.Range{Offset: t.Offset, Len: t.Len(), Rule: t.Rule})
	}
	return out
}

// runningShare is how much of each batch's statistics enters the running
// averages of batch norm.
const runningShare = 0.1

// dense describes the dense vector.
func (j *Job) dense(m *model.Model) (server.DenseConfig, error) {
	init := make([]float32, m.Layout().Total)
	if err := m.InitDense(init); err != nil {
		return server.DenseConfig{}, err
	}
	return server.DenseConfig{Ranges: denseRanges(m), Optimizer: j.DenseOptimizer, EMA: runningShare, Init: init}, nil
}

// placement is the map of the job's servers; addrs may be nil.
func (j *Job) placement(addrs []string) (*place.Map, error) {
	servers := make([]place.Server, j.Servers)
	for i := range servers {
		servers[i] = place.Server{ID: i, Weight: 1, Lanes: j.Lanes}
		if addrs != nil {
			servers[i].Addr = addrs[i]
		}
	}
	return place.New(1, place.DefaultSlots, servers)
}

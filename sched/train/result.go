package train

import (
	"time"

	"psrt/sched/client"
	"psrt/sched/pipe"
	"psrt/sched/psmsg"
	"psrt/sched/train/metric"
)

// Result is what a job reports, and `psrt train --json` prints. Figures that
// have no meaning for the task are absent.
type Result struct {
	AUC           *float64 `json:"auc,omitempty"`
	AUCErrorBound *float64 `json:"auc_error_bound,omitempty"`
	LogLoss       *float64 `json:"logloss,omitempty"`
	RMSE          *float64 `json:"rmse,omitempty"`
	MAE           *float64 `json:"mae,omitempty"`
	COPC          *float64 `json:"copc,omitempty"`
	Accuracy      *float64 `json:"accuracy,omitempty"`
	ActualCTR     *float64 `json:"actual_ctr,omitempty"`
	PredictedCTR  *float64 `json:"predicted_ctr,omitempty"`
	// EvaluatedOn says which data the figures above are of: test, valid or
	// train (the training rows as they were met).
	EvaluatedOn string `json:"evaluated_on"`
	// Evaluated is how many of those rows the figures are of. Invalid is how many are in no
	// figure, as metric.Report has them.
	Evaluated int64 `json:"evaluated_examples"`
	Invalid   int64 `json:"invalid,omitempty"`
	// Slots are the same figures by the values of the field that the job names.
	Slots []metric.SlotReport `json:"slots,omitempty"`

	Examples     int64   `json:"examples"`       // trained, all epochs
	ExamplesPerS float64 `json:"examples_per_s"` // over the time spent training, reading included, evaluation not
	TrainSeconds float64 `json:"train_s"`
	WallSeconds  float64 `json:"wall_s"`
	// StartSeconds is what came before: the ranks met, and where several keep the
	// coordinator that began. WallSeconds is without it.
	StartSeconds float64 `json:"start_s"`
	// PeakRSSBytes is the largest of all ranks; Ranks has each.
	PeakRSSBytes int64  `json:"peak_rss_bytes"`
	Transport    string `json:"transport"`
	Sync         string `json:"sync"`
	Staleness    *int   `json:"staleness,omitempty"`
	// StalenessSeen counts pulls by how many steps of the slowest worker they lacked.
	StalenessSeen psmsg.Staleness `json:"staleness_seen,omitempty"`
	// TableSync is that of each table, with its mode.
	TableSync []psmsg.SyncStats `json:"table_sync,omitempty"`
	Model     string            `json:"model"`
	Servers   int               `json:"servers"`
	Workers   int               `json:"workers"`
	Threads   int               `json:"threads"`
	BestEpoch int               `json:"best_epoch"` // counted from 1
	Epochs    []Epoch           `json:"epochs"`
	Stages    Stages            `json:"stages"`
	// Compress is what became of worker 0's gradients on their way; nil: nothing.
	Compress *CompressUse `json:"compress,omitempty"`
	// DenseSums is how the workers added dense gradients; nil: the servers did.
	DenseSums *DenseSums `json:"dense_sums,omitempty"`
	// Combined is how hosts pulled and pushed for their workers; nil: each for itself.
	Combined *Combined `json:"combined,omitempty"`
	// Heter is what the dense ranks did; nil: there were none.
	Heter *HeterUse `json:"heter,omitempty"`
	// Pipeline is where a step's time goes, stage by stage, over all workers.
	Pipeline pipe.Summary `json:"pipeline"`
	Digest   string       `json:"digest"`

	// DataNotes are the job's.
	DataNotes []string `json:"data_notes,omitempty"`
	// Warnings are lines for people: about figures that are missing or mislead, and failures that
	// the job outlived. The process that shows the events adds theirs.
	Warnings []string `json:"warnings,omitempty"`

	// Checkpoints is what was written of them, where the job was to.
	Checkpoints *Checkpoints `json:"checkpoints,omitempty"`

	// Takeovers are the workers that died, and whose part other processes went on with.
	Takeovers []Takeover `json:"takeovers,omitempty"`

	// Storage is how rows on disks came to memory, where there were any.
	Storage *StorageUse `json:"storage,omitempty"`

	// Life is what became of the features, where they have a lifecycle.
	Life *Life `json:"lifecycle,omitempty"`

	// Scored is what a job that scores did; all else of training is empty then.
	Scored *Scored `json:"scored,omitempty"`

	Features  int64              `json:"features"` // rows in the tables
	Ranks     []RankUsage        `json:"ranks"`
	ServerUse []psmsg.StatsReply `json:"server_stats"`
	Transfers []string           `json:"transports_chosen"`
}

// Epoch is one pass.
type Epoch struct {
	Epoch int            `json:"epoch"` // counted from 1
	Train *metric.Report `json:"train,omitempty"`
	Valid *metric.Report `json:"valid,omitempty"`
	// TrainSlots and ValidSlots are the same by slot, where the job names a field.
	TrainSlots []metric.SlotReport `json:"train_slots,omitempty"`
	ValidSlots []metric.SlotReport `json:"valid_slots,omitempty"`
	Seconds    float64             `json:"seconds"`
	Rows       int64               `json:"examples"`
	Best       bool                `json:"best"`
	// Warnings are lines for people about the figures above.
	Warnings []string `json:"warnings,omitempty"`

	largest extreme // of the values of features that were read
}

// RankUsage is what one rank cost.
type RankUsage struct {
	Rank         string  `json:"rank"` // "server 0", "worker 1"
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
	CPUSeconds   float64 `json:"cpu_seconds"`
	// Copied is a worker's; servers have theirs in server_stats.
	Copied *client.CopiedBytes `json:"copied_bytes,omitempty"`
	// Hot is a worker's that keeps hot rows: of those, and of all, what pulls asked.
	Hot *client.HotStats `json:"hot_rows,omitempty"`
	// RowsMoved is a worker's: bytes of rows that other workers kept, and gave it.
	RowsMoved int64 `json:"rows_moved_bytes,omitempty"`
	// Examples is a worker's: those that its last process has trained.
	Examples int64 `json:"examples,omitempty"`
	// Affinity is a worker's whose threads are kept on CPUs.
	Affinity *Affinity `json:"affinity,omitempty"`
}

// Event is a sign of life from a rank. Exactly one field is set.
type Event struct {
	Progress *Progress `json:"progress,omitempty"`
	Epoch    *Epoch    `json:"epoch,omitempty"`
	Note     string    `json:"note,omitempty"`
	// Warning is what a user must know although the job goes on. It is no progress: --quiet shows it.
	Warning string   `json:"warning,omitempty"`
	Stall   string   `json:"stall,omitempty"` // who waits for whom, and has done for too long
	Result  *Result  `json:"result,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// Progress is worker 0's view of a running epoch.
type Progress struct {
	Epoch        int     `json:"epoch"`
	Epochs       int     `json:"epochs"`
	Examples     int64   `json:"examples"` // this epoch, all workers
	Total        int64   `json:"total"`    // of the epoch; 0 while unknown
	ExamplesPerS float64 `json:"examples_per_s"`
	Loss         float64 `json:"loss"` // over this worker's share so far
	// AUC of the same rows; nil where they are of one class.
	AUC       *float64      `json:"auc,omitempty"`
	Remaining time.Duration `json:"remaining"` // of all epochs; 0 while unknown
}

// Failure is why a rank ends.
type Failure struct {
	Message string `json:"message"`
	// BadInput: the user's files or flags are at fault, not the run.
	BadInput bool `json:"bad_input"`
	// Secondary: this rank ends because another one did.
	Secondary bool `json:"secondary"`
}

package psmsg

import (
	"hash/crc32"

	"psrt/sched/audit"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/tiers/table"
)

// Visitor is the Hello.Worker of a connection without endpoints, made to ask
// MethodDescribe before there is a map to connect by.
const Visitor = -1

// Control methods of trainers that are not psrt train: they learn what the job
// is from its servers instead of bringing it.
const (
	MethodDescribe = "describe" // -> DescribeReply; visitors may ask it
	MethodEnter    = "enter"    // EnterRequest -> EnterReply
	MethodTable    = "table"    // TableRequest -> TableReply
	MethodBarrier  = "barrier"  // BarrierRequest -> BarrierReply, at server 0 of the map
	MethodFinish   = "finish"   // FinishRequest: the worker takes no more steps, and stays
	MethodBlocked  = "blocked"  // BlockedRequest -> BlockedReply, at server 0 of the map
	MethodPushed   = "pushed"   // -> PushedReply
)

// DescribeReply is a job as any of its servers knows it.
type DescribeReply struct {
	// Map has the addresses of all servers. A job with replicas has Chains, and no Map.
	Map     *place.Map    `json:"map,omitempty"`
	Chains  *place.Chains `json:"chains,omitempty"`
	Workers int           `json:"workers"`
	// Open says that trainers come and go: Workers is the most there may be.
	Open      bool `json:"open,omitempty"`
	Staleness int  `json:"staleness"` // 0 BSP, -1 ASP
	// Tables are those open now; others may be opened by MethodTable.
	Tables []table.Spec `json:"tables"`
	// DenseLen is the dense vector's length, DenseBlocks the blocks into which it
	// is cut; both 0 without one. Dense names parts of it.
	DenseLen    int         `json:"dense_len"`
	DenseBlocks int         `json:"dense_blocks"`
	Dense       []DensePart `json:"dense,omitempty"`
	// Audit is the record that the servers keep, nil where they keep none; its directory
	// is each process's own.
	Audit *audit.Config `json:"audit,omitempty"`
	// DenseFirst is where each block of the dense vector begins, told with Audit.
	DenseFirst []int `json:"dense_first,omitempty"`
}

// DensePart is a named range of the dense vector.
type DensePart struct {
	Name  string `json:"name"`
	First int    `json:"first"`
	Len   int    `json:"len"`
}

// EnterRequest makes a worker take part in the clocks (again). Without Step the
// server tells the latest step that the worker has reached at any of its lanes;
// with it the worker is in that step at all lanes, which may only be forward. A
// client asks every server, then sets all to the largest answer: a worker that
// died while it ticked leaves lanes that differ.
type EnterRequest struct {
	Step *uint64 `json:"step,omitempty"`
	// Workers is how many workers the job has, where workers come and go: no step is over
	// before so many were there. 0: the worker waits for nobody. Since QuorumSince.
	Workers int `json:"workers,omitempty"`
	// Back: the worker took steps before the server was started again. The server waits at most its
	// ReconnectFor for the others of Workers: one may have left before.
	Back bool `json:"back,omitempty"`
}

// EnterReply answers it. Refused says that the worker does not take part, and why.
type EnterReply struct {
	Step    uint64       `json:"step"`
	Refused EnterRefusal `json:"refused,omitempty"`
	// Quorum is the number of workers that those before have said, of a refusal. Here are
	// the workers below EnterRequest.Workers that are connected, Away those that broke their
	// connection and may come back.
	Quorum int   `json:"quorum,omitempty"`
	Here   []int `json:"here,omitempty"`
	Away   []int `json:"away,omitempty"`
}

// EnterRefusal is why a worker does not take part.
type EnterRefusal string

const (
	// EnterFull: all places of a job of EnterRequest.Workers are taken.
	EnterFull EnterRefusal = "full"
	// EnterDiffers: others have said another number of workers.
	EnterDiffers EnterRefusal = "differs"
)

// FinishRequest says that the worker takes no step from Step on. Its earlier pushes
// count, it may pull with FlagNoClock, and barriers wait for it. Since QuorumSince.
type FinishRequest struct {
	Step uint64 `json:"step"`
}

// BlockedRequest asks whom a request of the caller waits for: a pull of Step from Table
// (DenseLead: the dense vector), or where Pull is false the end of Step. Detect has the
// server end the barriers of workers that wait for the caller; without it the call changes
// nothing. Since QuorumSince.
type BlockedRequest struct {
	Step   uint64 `json:"step"`
	Pull   bool   `json:"pull,omitempty"`
	Table  uint32 `json:"table,omitempty"`
	Detect bool   `json:"detect,omitempty"`
}

// BlockedReply names the workers that have not ended Step: nobody, where the clocks keep
// nothing back. Expected are those of them that have not come, of Quorum workers. Barrier
// is set where Detect was: those that wait in a barrier, so that neither they nor the caller
// can go on; the server has ended their wait.
type BlockedReply struct {
	Step     uint64 `json:"step"`
	By       []int  `json:"by,omitempty"`
	Expected []int  `json:"expected,omitempty"`
	Quorum   int    `json:"quorum,omitempty"`
	Barrier  []int  `json:"barrier,omitempty"`
}

// PushedReply is by lane the sequence of the last push of the caller that counts: it was
// taken, in bsp for its step. Since QuorumSince.
type PushedReply struct {
	Last []uint64 `json:"last"`
}

// TableRequest opens a table by name. With Spec a missing table is made and an
// existing one compared; without, it must be there. Every server is asked, and
// all give the same ID: the one that Spec has, or TableID of the name, where the servers' own configuration
// gives no other.
type TableRequest struct {
	Name string      `json:"name"`
	Spec *table.Spec `json:"spec,omitempty"` // its ID counts where the table is made, 0: none
}

// TableReply is the table as it is. Where it is not what was asked for, Refused
// shows both, and the code says which status a trainer gets.
type TableReply struct {
	Spec     table.Spec `json:"spec"`
	RowBytes int        `json:"row_bytes"`
	Refused  string     `json:"refused,omitempty"`
	Code     TableCode  `json:"code,omitempty"`
}

// TableCode is why a table is not opened.
type TableCode string

const (
	TableMissing  TableCode = "missing"
	TableMismatch TableCode = "mismatch"
	TableInvalid  TableCode = "invalid"
)

// TableID is the number of a table that has no configured one. It depends on the
// name alone, so servers that make the table separately agree.
func TableID(name string) uint32 { return crc32.ChecksumIEEE([]byte(name)) }

// BarrierRequest waits until Workers workers wait, or where that is 0 all of the
// job: at an open server all that are connected. The server gives up by itself
// after TimeoutMicros.
type BarrierRequest struct {
	Workers       int   `json:"workers,omitempty"`
	TimeoutMicros int64 `json:"timeout_us"`
}

// BarrierReply says whether all came, and else who did.
type BarrierReply struct {
	All  bool  `json:"all"`
	Came []int `json:"came,omitempty"`
	Of   int   `json:"of,omitempty"` // how many would have been all
	// Stuck says that a worker which is not inside cannot come: it waits for this one to end
	// a step.
	Stuck *BarrierStuck `json:"stuck,omitempty"`
}

// BarrierStuck is a worker, and the step that it waits for.
type BarrierStuck struct {
	Worker int    `json:"worker"`
	Step   uint64 `json:"step"`
}

// Record tells who wants to know that the servers keep one.
func (d *DescribeReply) Record(a *audit.Config, blocks []densemap.Block) {
	if a == nil {
		return
	}
	d.Audit = a.Shared()
	for _, b := range blocks {
		d.DenseFirst = append(d.DenseFirst, b.Offset)
	}
}

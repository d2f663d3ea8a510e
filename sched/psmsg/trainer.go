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
}

// EnterReply answers it.
type EnterReply struct {
	Step uint64 `json:"step"`
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

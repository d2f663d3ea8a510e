package psmsg

import (
	"psrt/rdma"
	"psrt/tiers/accessor"
)

// Control methods, called over the connection's control channel.
const (
	MethodOpen   = "open"   // OpenRequest -> OpenReply: exchange the rings
	MethodLeave  = "leave"  // worker is done: its clock no longer counts
	MethodCarry  = "carry"  // CarryRequest: the worker pulls and pushes for others, too
	MethodDigest = "digest" // -> DigestReply
	MethodStats  = "stats"  // -> StatsReply
	MethodSave   = "save"   // SaveRequest -> SaveReply
	MethodLoad   = "load"   // LoadRequest

	MethodCut      = "cut"       // CutRequest: a checkpoint's consistent cut
	MethodCutParts = "cut-parts" // -> SaveReply, when all of the cut is written
	MethodCutDone  = "cut-done"  // CutDoneRequest

	MethodHappen = "happen" // HappenRequest -> HappenReply: to rows with a lifecycle
	MethodSwept  = "swept"  // waits until what ended is dropped
	MethodLives  = "lives"  // LivesRequest -> LivesReply
)

// OpenRequest gives each lane the ring in which the client wants its replies.
type OpenRequest struct {
	Replies []rdma.RemoteRange `json:"replies"`
	// Next is, by lane, the sequence of the next push that the client will send
	// or send again; a server that does not know the client begins there.
	Next []uint64 `json:"next,omitempty"`
	// Beside: the client takes replies at the twins of its endpoints, too.
	Beside bool `json:"beside,omitempty"`
	// Since is the epoch of the group's chain that the client knows: where the server has
	// an older one, it may be about to lead.
	Since uint64 `json:"since,omitempty"`
}

// OpenReply gives the client each lane's landing ring.
type OpenReply struct {
	Landing []rdma.RemoteRange `json:"landing"`
	// Eager is how many bytes of payload a request may carry in its slot; what
	// has more, the server fetches.
	Eager int `json:"eager"`
	// Standing is by lane. Of a group Last is committed: a new client goes on after it,
	// and one that is not new finds it less than what was acknowledged only where
	// acknowledged pushes are lost.
	Standing []Standing `json:"standing,omitempty"`
}

// CarryRequest names workers that never connect: what they push is in what the caller
// pushes, and the clocks do not wait for them.
type CarryRequest struct {
	Workers []int `json:"workers"`
}

// DigestReply is the digest of all that a server's lanes hold, in hex, to be
// added to the other servers'.
type DigestReply struct {
	Digest string `json:"digest"`
}

// StatsReply describes a server, or what it does for one group of a job with replicas.
type StatsReply struct {
	Server       int          `json:"server"`
	Group        *int         `json:"group,omitempty"`
	Rows         int64        `json:"rows"`
	TableBytes   int64        `json:"table_bytes"`
	PeakRSSBytes int64        `json:"peak_rss_bytes"`
	CPUSeconds   float64      `json:"cpu_seconds"`
	Tables       []TableStats `json:"tables"`
	Pulls        uint64       `json:"pulls"`
	Pushes       uint64       `json:"pushes"`
	Duplicates   uint64       `json:"duplicates"`
	StaleTickets uint64       `json:"stale_tickets"`
	// ExpiredTickets gave their rows' places in memory to other lookups.
	ExpiredTickets uint64 `json:"expired_tickets,omitempty"`
	// AnnouncedKeys are those of steps to come that workers have named.
	AnnouncedKeys uint64  `json:"announced_keys,omitempty"`
	Merged        uint64  `json:"merged_pushes"`
	RefusedRows   uint64  `json:"refused_rows"`
	BusySeconds   float64 `json:"busy_seconds"`
	// Copied is what this server's lanes moved in user space.
	Copied CopiedBytes `json:"copied_bytes"`
	// FanIn is what the server grants, by device; empty where it never does.
	FanIn []FanInStats `json:"fan_in,omitempty"`
	Lanes []LaneStats  `json:"lanes"`
	// Staleness is of the pulls that were answered, of rows and of dense values.
	Staleness Staleness `json:"staleness,omitempty"`
	// Syncs is of each table: how stale it may be, and was.
	Syncs []SyncStats `json:"table_sync,omitempty"`
	// Flows are what workers have moved, by worker and table.
	Flows []FlowStats `json:"flows"`
	// Disks is absent where no rows lie on any.
	Disks *DiskStats `json:"disks,omitempty"`
	// View is who sends how much; absent where nobody looks.
	View *ViewStats `json:"view,omitempty"`
	// Memory says which pages hold the rows, on which NUMA node, and why.
	Memory string `json:"memory,omitempty"`
	// Refusal is the newest reason for which a lane could not make rows, with
	// the numbers that a reply's code has no room for.
	Refusal string `json:"refusal,omitempty"`
}

// CopiedBytes counts payload moved in user space since the server began; the
// transport's own are in rdma.Stats. See docs/zero-copy.md.
type CopiedBytes struct {
	Gathered uint64 `json:"gathered"` // rows of sparse pulls: the one gather
	Placed   uint64 `json:"placed"`   // dense values put straight into a worker's mapped memory: the wire
	// Carried are dense blocks that an update left as they were (their gradient
	// was refused), taken over into the new version of the others.
	Carried uint64 `json:"carried"`
	Rescued uint64 `json:"rescued"` // gradients of sessions that ended before they were applied
}

// Add adds o.
func (c *CopiedBytes) Add(o CopiedBytes) {
	c.Gathered += o.Gathered
	c.Placed += o.Placed
	c.Carried += o.Carried
	c.Rescued += o.Rescued
}

// Moved is all that user space moved, the wire included.
func (c CopiedBytes) Moved() uint64 {
	return c.Gathered + c.Placed + c.Carried + c.Rescued
}

// FanInStats is one link's share of what sched/fanin counts and estimates.
type FanInStats struct {
	Device           string `json:"device"`
	BytesPerSecond   int64  `json:"bytes_per_second"` // of the link, as estimated
	RTTNanos         int64  `json:"rtt_nanos"`        // of a chunk, as estimated
	ChunkBytes       int64  `json:"chunk_bytes"`
	WindowBytes      int64  `json:"window_bytes"`
	OutstandingBytes int64  `json:"outstanding_bytes"`
	WaitingSessions  int    `json:"waiting_sessions"`
	Grants           int64  `json:"grants"`
	GrantedBytes     int64  `json:"granted_bytes"`
	LandedBytes      int64  `json:"landed_bytes"`
	Late             int64  `json:"late"`      // times that a session was
	SetAside         int64  `json:"set_aside"` // times that a session was
	First            int64  `json:"first"`     // turns that a straggler took before others
	Passed           int64  `json:"passed"`    // turns that a hot worker left to others
}

// TableStats describes one table on one server.
type TableStats struct {
	Name     string `json:"name"`
	Rows     int64  `json:"rows"`
	RowBytes int    `json:"row_bytes"`
	Bytes    int64  `json:"bytes"` // of memory
	// Tiers is absent where all rows are in memory.
	Tiers *TierStats `json:"tiers,omitempty"`
	// Ahead is what became of announcements, likewise.
	Ahead *AheadStats `json:"look_ahead,omitempty"`
	// Life is absent where the table has no lifecycle.
	Life *LifeStats `json:"life,omitempty"`
}

// DenseID is the dense vector's number in a saved model.
const DenseID = 1

// SaveRequest asks a server to write its part of a model below Dir.
type SaveRequest struct {
	Dir         string `json:"dir"`
	WeightsOnly bool   `json:"weights_only"`
}

// SaveReply lists what was written; the caller commits the manifest. Parts is
// the checkpoint package's own description.
type SaveReply struct {
	Parts  []byte `json:"parts"`
	Digest string `json:"digest"` // "" of a delta
	// PauseSeconds is the longest that a lane stood still for a cut.
	PauseSeconds float64 `json:"pause_seconds,omitempty"`
	// Lifecycle is what the tables with one had been through then, by ID: memos of
	// tiers/accessor, of this server's lanes.
	Lifecycle map[uint32]string `json:"lifecycle,omitempty"`
	// Leads is what a cut has beyond its step.
	Leads []Lead `json:"leads,omitempty"`
	// Scores are counts of rows by score, by table ID, where the cut was for them.
	Scores map[uint32]*accessor.Scores `json:"scores,omitempty"`
}

// LoadRequest asks a server to replace its rows by those of the model in Dir
// that it owns. Generation is one of a history, 0 the newest.
type LoadRequest struct {
	Dir        string `json:"dir"`
	Generation uint64 `json:"generation,omitempty"`
	// Saved says that Dir is where checkpoints go: the next delta has what changes
	// from here on.
	Saved bool `json:"saved,omitempty"`
	// KeepOpen says that a save for serving which the model was in the middle of
	// will be ended by the caller; otherwise it has failed.
	KeepOpen bool `json:"keep_open,omitempty"`
	// Leads is what the model has beyond the step at which its job goes on, whose
	// number is 0 now.
	Leads []Lead `json:"leads,omitempty"`
}

// CutRequest asks a server to note its state as it is after all updates of the
// steps before Step (and in BSP none of later ones), and to write it through
// Ticket while training goes on. It is answered before the state is reached. A
// cut under way is given up for it.
type CutRequest struct {
	Ticket string `json:"ticket"` // of tiers/ckpt
	Step   uint64 `json:"step"`
	Delta  bool   `json:"delta"` // only what has changed since the last committed cut
	// Serving has weights, as a pull gives them, of the rows that are in the save for
	// serving which has begun, and a delta of the rows that are gone. Scores has no
	// rows, and counts them. Neither changes what the next delta has.
	Serving bool `json:"serving,omitempty"`
	Scores  bool `json:"scores,omitempty"`
}

// CutDoneRequest ends the cut. Where it was not committed, what it had is in the
// next delta too.
type CutDoneRequest struct {
	Committed bool `json:"committed"`
	// Untaken is of a job that has failed: only lanes that have not come to the cut's step
	// give it up; the others go on writing.
	Untaken bool `json:"untaken,omitempty"`
}

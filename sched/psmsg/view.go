package psmsg

// LaneStats is what waits in one lane.
type LaneStats struct {
	Lane     int `json:"lane"` // in the map
	Sessions int `json:"sessions"`
	// QueuePairs are the sessions' endpoints: two where fetches have one of their own.
	QueuePairs int `json:"queue_pairs"`
	// Credits are requests that workers may still send; Requests are those in
	// hand, and of these Parked the pulls that wait for the clocks, Held the
	// pushes that wait for their step.
	Credits     int     `json:"credits"`
	Requests    int     `json:"requests"`
	Parked      int     `json:"parked_pulls"`
	Reading     int     `json:"reading"` // requests that wait for a disk
	Starved     int     `json:"starved"` // requests that wait for memory others have pinned
	Held        int     `json:"held_pushes"`
	BusySeconds float64 `json:"busy_seconds"`
	// Clocks are the steps that the workers are in, -1 for one that has left.
	Clocks []int64 `json:"clocks"`
}

// FlowStats is what one worker has moved for one table, as the server counts
// it: requests with what rides in them, what was fetched, and where the
// worker's memory is mapped what was read and written there.
type FlowStats struct {
	Worker   int    `json:"worker"`
	Table    string `json:"table"` // DenseFlow: the dense vector; OtherFlow: what has no name of its own
	InBytes  uint64 `json:"in_bytes"`
	OutBytes uint64 `json:"out_bytes"`
	// Requests that came, those sent again included.
	Pulls  uint64 `json:"pulls"`
	Pushes uint64 `json:"pushes"`
}

// Names of flows that are no table's.
const (
	DenseFlow = "(dense)"
	OtherFlow = "(other)"
)

// ViewStats is who sends how much to a server, as sched/probe sees it.
type ViewStats struct {
	Meter string `json:"meter"` // what counts, and why that
	// PeriodSeconds is between two readings, ReadSeconds what the last one took.
	PeriodSeconds float64        `json:"period_seconds"`
	ReadSeconds   float64        `json:"read_seconds"`
	Workers       []ViewedWorker `json:"workers"`
	Sources       []ViewedSource `json:"sources"`
	// LeftOut are sources beyond MaxSources; their bytes are in Workers.
	LeftOut int `json:"left_out,omitempty"`
	// Lost are sources that the meter had no room for.
	Lost uint64 `json:"lost,omitempty"`
}

// MaxSources bounds ViewStats.Sources.
const MaxSources = 1024

// ViewedWorker is one worker's part.
type ViewedWorker struct {
	Worker         int     `json:"worker"` // -1: bytes that are nobody's
	Sources        int     `json:"sources"`
	Bytes          uint64  `json:"bytes"`
	Messages       uint64  `json:"messages"`
	BytesPerSecond float64 `json:"bytes_per_second"` // smoothed
	Straggler      bool    `json:"straggler,omitempty"`
	Hot            bool    `json:"hot,omitempty"`
}

// ViewedSource is one connection's or queue pair's.
type ViewedSource struct {
	Worker         int     `json:"worker"`
	Peer           string  `json:"peer,omitempty"` // address, and port where there is one
	Interface      string  `json:"interface,omitempty"`
	QueuePair      uint32  `json:"queue_pair,omitempty"`
	Bytes          uint64  `json:"bytes"`
	Messages       uint64  `json:"messages"`
	BytesPerSecond float64 `json:"bytes_per_second"`
}

package psmsg

import "psrt/sched/stall"

// MethodWaits asks what a server waits for: WaitsRequest -> WaitsReply.
const MethodWaits = "waits"

// WaitsRequest wants waits of at least so long, for requests of one worker, or
// with -1 of all.
type WaitsRequest struct {
	Worker      int   `json:"worker"`
	LeastMicros int64 `json:"least_micros"`
}

// WaitsReply lists them, the longest first.
type WaitsReply struct {
	Waits []stall.Wait `json:"waits"`
}

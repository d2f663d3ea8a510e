package psmsg

// AheadStats is what became of one table's look-ahead.
type AheadStats struct {
	// AnnouncedRows are those of steps to come that the table took note of,
	// UnheededRows those for which it had no room.
	AnnouncedRows uint64 `json:"announced_rows"`
	UnheededRows  uint64 `json:"unheeded_rows"`
	// SyncReads are the rows that a step of training had to have read when it asked
	// for them, SteadySyncReads those of them that came after SteadyFrom steps.
	SyncReads       uint64 `json:"sync_reads"`
	SteadySyncReads uint64 `json:"steady_sync_reads"`
	// ScoreReads are the rows read for passes that train nothing.
	ScoreReads uint64 `json:"score_reads"`
}

// SteadyFrom is the number of steps at the start of a job that are not yet like
// those that follow.
const SteadyFrom = 10

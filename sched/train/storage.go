package train

import (
	"cmp"
	"errors"
	"fmt"

	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/policy"
)

// LookAhead is how many steps ahead a job with rows on disks announces them.
const LookAhead = 8

// Storage says where servers keep rows beyond their memory.
type Storage struct {
	Dirs []string `json:"dirs"` // one on each device; every server has its own part of each
	// LimitBytes bounds what one server has there, 0 for what there is.
	LimitBytes int64  `json:"limit_bytes,omitempty"`
	Pmem       string `json:"pmem,omitempty"` // directory on a byte-addressable device
	Policy     string `json:"policy,omitempty"`
	// Record is a file for what the first lane's steps look up, "" is none.
	Record string `json:"record,omitempty"`
	// ExpectedRows is a guess of how many rows all servers will have.
	ExpectedRows int64 `json:"expected_rows,omitempty"`
}

func (s *Storage) validate(memory int64) error {
	switch {
	case s == nil:
		return nil
	case len(s.Dirs) == 0:
		return errors.New("train: rows on disks without a directory: give --ssd DIR")
	case s.LimitBytes < 0:
		return fmt.Errorf("train: at most %d bytes on disks: want 0 (what there is) or more", s.LimitBytes)
	case memory <= 0:
		return errors.New("train: rows on disks need a bound of the memory: give --mem-budget")
	}
	return policy.Check(s.Policy)
}

// forServer is the server's form; row is a row's length in bytes.
func (s *Storage) forServer(j *Job, rowBytes int) *server.Storage {
	if s == nil {
		return nil
	}
	return &server.Storage{Dirs: s.Dirs, LimitBytes: s.LimitBytes, ExpectedBytes: s.ExpectedRows * int64(rowBytes),
		Pmem: s.Pmem, Policy: s.Policy, BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead, Record: s.Record}
}

// StorageUse is what became of rows that lie on disks, on all servers.
type StorageUse struct {
	Policy       string  `json:"policy"`
	LookAhead    int     `json:"look_ahead"` // steps announced
	Steps        uint64  `json:"steps"`      // of training
	Rows         int64   `json:"rows"`
	RowsInMemory int64   `json:"rows_in_memory"`
	Reads        uint64  `json:"reads"` // of rows, validation's included
	Writes       uint64  `json:"writes"`
	ReadsEach    float64 `json:"reads_per_example"`
	WritesEach   float64 `json:"writes_per_example"`
	// SyncReads are the rows that a step had to have read when it asked for them;
	// SteadySyncReads those after SteadyFrom steps, and SteadySyncEach how many for
	// each of these steps. ScoreReads are of validation.
	SyncReads       uint64  `json:"sync_reads"`
	SteadyFrom      uint64  `json:"steady_from"`
	SteadySyncReads uint64  `json:"steady_sync_reads"`
	SteadySyncEach  float64 `json:"steady_sync_reads_per_step"`
	ScoreReads      uint64  `json:"score_reads"`
	// Unheeded is how many of the announced rows there was no room to remember; the
	// look-ahead was shorter by that.
	Unheeded float64 `json:"unheeded_share"`
}

func (w *worker) storageUse(res *Result) *StorageUse {
	if w.job.Storage == nil {
		return nil
	}
	u := &StorageUse{Policy: cmp.Or(w.job.Storage.Policy, policy.NameBelady), LookAhead: w.job.LookAhead, Steps: w.clock, SteadyFrom: psmsg.SteadyFrom}
	var announced, unheeded uint64
	for _, s := range res.ServerUse {
		for _, t := range s.Tables {
			u.Rows += t.Rows
			if d := t.Tiers; d != nil {
				u.RowsInMemory += d.RowsInMemory
				u.Reads += d.DiskReads
				u.Writes += d.DiskWrites
			}
			if a := t.Ahead; a != nil {
				u.SyncReads += a.SyncReads
				u.SteadySyncReads += a.SteadySyncReads
				u.ScoreReads += a.ScoreReads
				announced += a.AnnouncedRows
				unheeded += a.UnheededRows
			}
		}
	}
	if n := float64(res.Examples); n > 0 {
		u.ReadsEach, u.WritesEach = float64(u.Reads)/n, float64(u.Writes)/n
	}
	if u.Steps > u.SteadyFrom {
		u.SteadySyncEach = float64(u.SteadySyncReads) / float64(u.Steps-u.SteadyFrom)
	}
	if n := announced + unheeded; n > 0 {
		u.Unheeded = float64(unheeded) / float64(n)
	}
	return u
}

// String is a line for people.
func (u *StorageUse) String() string {
	s := fmt.Sprintf("%d of %d rows in memory; %.2f read and %.2f written for each example by %s; %.1f a step not read ahead",
		u.RowsInMemory, u.Rows, u.ReadsEach, u.WritesEach, u.Policy, u.SteadySyncEach)
	if u.Unheeded > 0 {
		s += fmt.Sprintf("; the memory has no room to remember %.0f %% of the %d steps announced: raise --mem-budget or lower --batch", 100*u.Unheeded, u.LookAhead)
	}
	return s
}

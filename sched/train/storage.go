package train

import (
	"errors"
	"fmt"

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
		Pmem: s.Pmem, Policy: s.Policy, BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead}
}

package mem

import (
	"errors"
	"fmt"

	"psrt/rdma/feature"
)

// ErrNoMemory marks a NoMemoryError.
var ErrNoMemory = errors.New("mem: no memory for the arena")

// NoMemoryError says that an arena does not fit, before anything was mapped
// or after all of it was given back.
type NoMemoryError struct {
	Purpose string
	Needed  int64 // bytes
	Allowed int64 // bytes
	By      string
	Remedy  string
}

func (e *NoMemoryError) Error() string {
	return fmt.Sprintf("mem: no memory for the arena %q: needed %s (%d bytes), allowed %s (%d bytes) by %s; %s",
		e.Purpose, bytesText(e.Needed), e.Needed, bytesText(e.Allowed), e.Allowed, e.By, e.Remedy)
}

// Is makes every NoMemoryError an ErrNoMemory.
func (e *NoMemoryError) Is(target error) bool { return target == ErrNoMemory }

// headroom is the part of a limit that arenas leave alone, 1 in so many: the
// Go heap, stacks and page tables (1/512 of the arena) live there.
const headroom = 32

// checkBudget compares bytes with what the machine and its cgroups allow. A
// machine whose limits cannot be read is not refused: the kernel decides.
func checkBudget(root feature.Root, purpose string, bytes int64) error {
	limits, err := root.MemoryLimits()
	if len(limits) == 0 || err != nil {
		return nil
	}
	least := feature.Tightest(limits)
	allowed := least.Bytes - least.Bytes/headroom
	if bytes <= allowed {
		return nil
	}
	return &NoMemoryError{Purpose: purpose, Needed: bytes, Allowed: allowed, By: least.Source, Remedy: least.Remedy}
}

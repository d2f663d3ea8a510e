package mem

import (
	"errors"
	"fmt"
	"math"
)

// ErrConfig marks a Config that cannot be served whatever the machine.
var ErrConfig = errors.New("mem: bad arena configuration")

// Config asks for an arena.
type Config struct {
	Size    int    // bytes
	Node    int    // NUMA node, -1 for any
	Purpose string // names the use in counters and errors
	// Share backs the arena with a memfd, sealed against resizing, so that its
	// descriptor can be passed to another process.
	Share bool
	// Lock keeps the pages in memory by mlock. A refusal is told in Info; with
	// LockRequired it is an error.
	Lock         bool
	LockRequired bool
	// Huge is "auto" (the default) or "never".
	Huge     string
	Prefault bool // take all pages now
	// Root is the folder that holds proc and sys, for tests; "" is "/".
	Root string
}

// maxSize bounds an arena: half of the address space, far from overflow when
// rounded up.
const maxSize = math.MaxInt64 / 4

func (c *Config) check() error {
	switch {
	case c.Size <= 0 || c.Size > maxSize:
		return fmt.Errorf("%w: size %d bytes for %q, want 1 to %d", ErrConfig, c.Size, c.Purpose, int64(maxSize))
	case c.Node < -1:
		return fmt.Errorf("%w: NUMA node %d for %q, want a node or -1 for any", ErrConfig, c.Node, c.Purpose)
	case c.Purpose == "":
		return fmt.Errorf("%w: no purpose given for %d bytes", ErrConfig, c.Size)
	case c.Huge != "" && c.Huge != "auto" && c.Huge != "never":
		return fmt.Errorf("%w: huge pages %q for %q, want auto or never", ErrConfig, c.Huge, c.Purpose)
	}
	return nil
}

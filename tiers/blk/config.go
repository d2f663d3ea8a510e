package blk

import (
	"errors"
	"fmt"

	"psrt/tiers/uring"
)

// Config chooses a device. The zero value is the best that the machine has.
type Config struct {
	Depth int // requests in flight; 0 is 128
	// Block makes the unit larger than the disk asks for: 4096; 0 is the disk's.
	Block int
	// Engine is "io_uring", "pread" or, empty, the first that works.
	Engine string
	// Buffered goes through the page cache.
	Buffered bool
	// OldRing uses io_uring as kernels before 5.19 have it, for tests.
	OldRing bool
	// Files is how many files are registered; 0 is 1024. More may be open.
	Files int
}

// Engines.
const (
	EngineRing  = "io_uring"
	EnginePread = "pread"
)

const maxDepth = uring.MaxEntries

func (c Config) withDefaults() (Config, error) {
	if c.Depth == 0 {
		c.Depth = 128
	}
	if c.Files == 0 {
		c.Files = 1024
	}
	switch {
	case c.Depth < 1 || c.Depth > maxDepth:
		return c, fmt.Errorf("blk: a depth of %d, want 1 to %d", c.Depth, maxDepth)
	case c.Block != 0 && c.Block != 512 && c.Block != 4096:
		return c, fmt.Errorf("blk: blocks of %d bytes, want 512 or 4096", c.Block)
	case c.Engine != "" && c.Engine != EngineRing && c.Engine != EnginePread:
		return c, fmt.Errorf("blk: engine %q, want %s, %s or none", c.Engine, EngineRing, EnginePread)
	case c.Files < 0 || c.Files > 1<<15:
		return c, fmt.Errorf("blk: %d registered files, want at most %d", c.Files, 1<<15)
	}
	return c, nil
}

// Open takes a directory, which must exist, for itself. Where io_uring is
// forbidden it falls back to pread and pwrite, and String says so.
func Open(dir string, cfg Config) (Device, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := openFolder(dir, &cfg)
	if err != nil {
		return nil, err
	}
	var why error
	if cfg.Engine != EnginePread {
		u, err := newUring(d, &cfg)
		if err == nil {
			return u, nil
		}
		if cfg.Engine == EngineRing {
			return nil, errors.Join(err, d.close())
		}
		why = err
	}
	return newPlain(d, &cfg, why), nil
}

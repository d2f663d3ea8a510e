package shm

import (
	"fmt"
	"path/filepath"
	"runtime"
)

// Config opens a Domain.
type Config struct {
	// SpinMicros is how long Queue.Wait polls before it sleeps, and a fortieth of
	// how long it may where that is rewarded (package patience); 0 means the default
	// (30, or none on a single core), a negative number none.
	SpinMicros int
	// Dir holds the listening socket as a file; "" uses an abstract socket
	// name, which needs no folder and leaves nothing behind but is seen only
	// inside one network namespace.
	Dir string
	// Purpose names the domain in errors.
	Purpose string
	// OnPanic is told of a panic in a goroutine of the domain's own; nil: it ends the
	// process.
	OnPanic func(any)
}

const (
	defaultSpinMicros = 30
	maxSpinMicros     = 1_000_000
	longestSpins      = 40      // times SpinMicros
	maxDepth          = 1 << 16 // requests per endpoint and direction
	maxMessage        = 1 << 30 // bytes of one request
	maxInline         = 256     // bytes
	// maxDir leaves room for the file's name in the 108 bytes of a unix
	// socket address.
	maxDir = 60
)

func (c Config) check() (Config, error) {
	switch {
	case c.SpinMicros > maxSpinMicros:
		return c, fmt.Errorf("shm: spin time %d us, want at most %d", c.SpinMicros, maxSpinMicros)
	case len(c.Dir) > maxDir:
		return c, fmt.Errorf("shm: socket folder %q has %d bytes, want at most %d: use a shorter path or an abstract socket", c.Dir, len(c.Dir), maxDir)
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return c, fmt.Errorf("shm: socket folder %q must be an absolute path: peers have other working folders", c.Dir)
	}
	switch {
	case c.SpinMicros < 0:
		c.SpinMicros = 0
	case c.SpinMicros == 0 && runtime.NumCPU() > 1:
		c.SpinMicros = defaultSpinMicros
	}
	return c, nil
}

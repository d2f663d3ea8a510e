package audit

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultLimit bounds each file.
const DefaultLimit = 1 << 30

// leastLimit is some pieces of a file.
const leastLimit = 1 << 20

// Ext is what the files end in.
const Ext = ".psrt-audit"

// Config is a job's, the same for all of its processes.
type Config struct {
	Dir  string  `json:"dir"` // of each host
	Rate float64 `json:"rate"`
	// Limit is the most bytes of a worker's or a lane's file.
	Limit int64  `json:"limit"`
	Run   string `json:"run"` // see NewRun
}

// NewRun names a run: by time first, so that names are in order.
func NewRun(now time.Time) string {
	return strings.Replace(now.UTC().Format("20060102T150405.000000"), ".", "", 1) + "-" + random()
}

func random() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return hex.EncodeToString(b[:])
}

// Shared is what others must know to record of the same run, each into a directory of
// its own; nil where nobody records.
func (c *Config) Shared() *Config {
	if c == nil {
		return nil
	}
	s := *c
	s.Dir = ""
	return &s
}

// Validate reports what is wrong, or nil.
func (c *Config) Validate() error {
	if c == nil {
		return nil
	}
	if _, err := NewSample(c.Rate); err != nil {
		return err
	}
	switch {
	case c.Dir == "":
		return fmt.Errorf("audit: records without a directory: give --audit DIR")
	case c.Run == "" || filepath.Base(c.Run) != c.Run:
		return fmt.Errorf("audit: a run named %q", c.Run)
	case c.Limit < leastLimit:
		return fmt.Errorf("audit: at most %d bytes for each file, want at least %d", c.Limit, leastLimit)
	}
	return nil
}

// create makes a file for one of the job's workers or lanes; what goes by the same
// name again, a process that was started anew, has a file of its own.
func (c *Config) create(name string, h *Header) (*file, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	h.Run, h.Rate = c.Run, c.Rate
	h.Host, _ = os.Hostname() // for people
	return create(filepath.Join(c.Dir, c.Run+"-"+name+"-"+random()+Ext), c.Limit, h)
}

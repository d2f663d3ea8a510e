package hbm

import (
	"fmt"
	"strings"

	"psrt/csrc/ptx"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// Devices that can be measured.
const (
	DeviceGPU  = "gpu"
	DeviceHost = "host"
	// DeviceLibrary begins one that an accelerator's library drives: its file follows.
	DeviceLibrary = "so:"
)

// Config is what is measured. There are rowsABatch times as many rows as a batch has.
type Config struct {
	Device  string // DeviceGPU, DeviceHost, or DeviceLibrary and a file
	Library string // the driver's, "" the machine's own
	NCCL    string // NCCL's, likewise
	Index   int    // of the GPU, or of the library's device; 0 with Cards
	Rows    int    // of a batch
	Dim     int    // floats of a row
	Misses  int    // per cent of a step's rows that are not there yet
	Cards   int    // among which rows are spread, too; below 2: they are not
	Rounds  int
	Seed    uint64
}

const (
	rowsABatch = 4
	maxRows    = 1 << 24
	maxDim     = 1024
	maxRounds  = 1000
	maxCards   = 8
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Device != DeviceGPU && c.Device != DeviceHost && c.library() == "":
		return fmt.Errorf("hbm: device %q, want %s, %s, or %s and the file of an accelerator's library", c.Device, DeviceGPU, DeviceHost, DeviceLibrary)
	case c.Index < 0:
		return fmt.Errorf("hbm: device %d, want its number, 0 or more", c.Index)
	case c.Rows < 16 || c.Rows > maxRows:
		return fmt.Errorf("hbm: batches of %d rows, want 16 to %d", c.Rows, maxRows)
	case c.Dim < ptx.Align || c.Dim > maxDim || c.Dim%ptx.Align != 0:
		return fmt.Errorf("hbm: rows of %d floats, want a multiple of %d up to %d", c.Dim, ptx.Align, maxDim)
	case c.Misses < 0 || c.Misses > 100:
		return fmt.Errorf("hbm: %d per cent of misses, want 0 to 100", c.Misses)
	case c.Cards < 0 || c.Cards > maxCards:
		return fmt.Errorf("hbm: %d cards, want up to %d", c.Cards, maxCards)
	case c.Device == DeviceGPU && c.Cards > 1 && c.Index != 0:
		return fmt.Errorf("hbm: GPU %d and %d cards: those are GPUs 0 to %d; leave --gpu out, and have CUDA_VISIBLE_DEVICES name the cards", c.Index, c.Cards, c.Cards-1)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("hbm: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	}
	return nil
}

// library is the accelerator's file, "" where it is none's.
func (c *Config) library() string {
	file, is := strings.CutPrefix(c.Device, DeviceLibrary)
	if !is {
		return ""
	}
	return file
}

// device is what a server would have, by its number.
func (c *Config) device(index int) (hbm.Device, error) {
	switch {
	case c.Device == DeviceGPU:
		return &gpu.Device{Index: index, Library: c.Library}, nil
	case c.library() != "":
		return gpu.PickFrom(c.library(), index)
	}
	return hbm.Host{Node: -1}, nil
}

func (c *Config) total() int { return rowsABatch * c.Rows }

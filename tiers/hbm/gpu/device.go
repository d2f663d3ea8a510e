package gpu

import (
	"errors"
	"fmt"

	"psrt/csrc/cuda"
	"psrt/csrc/kernels"
	"psrt/csrc/ptx"
	"psrt/tiers/table"
)

// ErrUserRule: rows that a user's rule updates stay in the host's memory.
var ErrUserRule = errors.New("gpu: a rule of the user's works on rows in the host's memory: leave --hbm-budget out")

// Device is a GPU that rows can be kept in.
type Device struct {
	// Index is the driver's number of the GPU.
	Index int
	// Library is the driver's, "" the machine's own.
	Library string

	name string
}

// Name says which GPU it is, once Open or Probe has asked.
func (d *Device) Name() string {
	if d.name == "" {
		return fmt.Sprintf("GPU %d", d.Index)
	}
	return d.name
}

// Pick is the GPU of a server, by its number: servers of one host share its cards out.
func Pick(server int) (*Device, error) {
	driver, err := cuda.Load("")
	if err != nil {
		return nil, err
	}
	all, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("gpu: the driver shows no device")
	}
	d := &Device{Index: server % len(all)}
	return d, d.Probe()
}

// stages are pieces of batches that are under way at once, pieceBytes the most that
// one holds of a batch.
const (
	stages     = 3
	pieceBytes = 4 << 20
	minPiece   = 64
)

// layout is how a table's rows lie on a device, in floats, and the pieces of a batch.
type layout struct {
	row, stride int // a row, and from one to the next
	dim         int
	push        int // floats of what updates a row
	piece       int // rows of a piece
}

func layoutOf(spec *table.Spec, batchRows int) layout {
	l := layout{row: spec.RowFloats(), dim: spec.Dim, push: spec.Dim}
	if spec.Lifecycle != nil {
		l.push += kernels.PushCounts
	}
	l.stride = (l.row + ptx.Align - 1) / ptx.Align * ptx.Align
	l.piece = max(minPiece, min(batchRows, pieceBytes/4/max(l.row, l.push)))
	return l
}

// A stage on the device: numbers of rows, floats, and a count.
func (l *layout) idBytes() int   { return align(4 * l.piece) }
func (l *layout) flatBytes() int { return align(4 * l.piece * max(l.row, l.push)) }
func (l *layout) stageBytes() int {
	return l.idBytes() + l.flatBytes() + align(8)
}

func align(n int) int { return (n + 255) &^ 255 }

// Slots is how many rows fit beside the stages.
func (d *Device) Slots(spec *table.Spec, bytes int64, batchRows int) int {
	l := layoutOf(spec, batchRows)
	left := bytes - int64(stages*l.stageBytes()) - 255
	return int(min(max(0, left/int64(4*l.stride)), table.MaxRows))
}

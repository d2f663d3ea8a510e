package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/csrc/ptx"
	"psrt/tiers/hbm"
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
	// Accel is a library with a table of functions (csrc/accel) that is asked instead of
	// CUDA, "" none; Index is then its number of the device.
	Accel string
	// Within is how long it may be at a piece of work before it is taken to hang, for tests; 0:
	// a minute.
	Within time.Duration

	mu          sync.Mutex
	name, model string // once they are known
	broken      error  // how it failed in this process
}

// Name says which GPU it is, once Open or Probe has asked.
func (d *Device) Name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.name == "" {
		return fmt.Sprintf("GPU %d", d.Index)
	}
	return d.name
}

// Model is what devices have in common that work alike, once Open or Probe has asked.
func (d *Device) Model() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.model
}

// breaks notes that the device has failed: what is opened later does without it. That it hangs
// is what others want to know, whatever was before.
func (d *Device) breaks(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil || errors.Is(err, hbm.ErrHangs) {
		d.broken = err
	}
}

// hangs says that some table's work on the device was not over in time: the driver waits for that
// before it gives back anybody's memory.
func (d *Device) hangs() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(d.broken, hbm.ErrHangs) {
		return d.broken
	}
	return nil
}

func (d *Device) isBroken() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return fmt.Errorf("gpu: %s has failed in this process: %w", d.name, d.broken)
	}
	return nil
}

func (d *Device) named(name, model string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.name == "" {
		d.name, d.model = name, model
	}
}

// Pick is a GPU for a server, which has it until release is called: servers of one
// host, of whatever jobs, share its cards evenly, unlike ones by their speed. Where
// the machine does not show its cards they are taken in turns by the server's number.
// It is one that has room for so many bytes, where one has, or else that which has most.
func Pick(server int, bytes int64) (d *Device, release func(), err error) {
	driver, err := cuda.Load("")
	if err != nil {
		return nil, nil, err
	}
	all, err := driver.Devices()
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, errors.New("gpu: the driver shows no device")
	}
	buses, speeds := make([]string, len(all)), make([]float64, len(all))
	for i, info := range all {
		buses[i], speeds[i] = info.Bus, 1
	}
	if slices.ContainsFunc(all, func(o cuda.Info) bool { return o.Name != all[0].Name }) {
		if speeds, err = measured(driver, len(all)); err != nil {
			return nil, nil, err
		}
	}
	take := func(speeds []float64) (card int, release func()) {
		if card, release, err := claim(host, buses, speeds); err == nil {
			return card, release
		}
		return turn(server, speeds), func() {}
	}
	devices := make([]*Device, len(all)) // those asked know their names
	card, release, err := roomy(speeds, bytes, take, func(card int) (int64, error) {
		devices[card] = &Device{Index: card}
		return devices[card].room()
	})
	if err != nil {
		return nil, nil, err
	}
	return devices[card], release, nil
}

// roomy takes one of the cards that have a speed after the other, as take chooses, until
// one has room for bytes. It has a speed of its own no more then, and is given back but
// for that which has most room.
func roomy(speeds []float64, bytes int64, take func([]float64) (int, func()), room func(int) (int64, error)) (card int, release func(), err error) {
	speeds = slices.Clone(speeds)
	most := int64(-1)
	var failed error
	for slices.Max(speeds) > 0 {
		one, end := take(speeds)
		speeds[one] = -1
		free, err := room(one)
		if err != nil || free <= most {
			failed = errors.Join(failed, err)
			end()
			continue
		}
		if release != nil {
			release()
		}
		if card, release, most = one, end, free; free >= bytes {
			break
		}
	}
	if release == nil {
		return 0, nil, failed
	}
	return card, release, nil
}

// Kinds of devices, as people name them: a GPU, or, followed by a file, an accelerator's
// library. A number is the GPU that the driver has under it.
const (
	KindGPU     = "gpu"
	KindLibrary = "so:"
)

// Named says whether a kind is a device's name.
func Named(kind string) bool {
	number, numbered := numberOf(kind)
	return kind == KindGPU || numbered && number >= 0 || strings.HasPrefix(kind, KindLibrary) && kind != KindLibrary
}

// numberOf is the driver's, where a kind is one, as it is written by itself.
func numberOf(kind string) (number int, is bool) {
	number, err := strconv.Atoi(kind)
	return number, err == nil && strconv.Itoa(number) == kind
}

// Choose is a device of a kind until release is called, for so many bytes where there is
// a choice; turn counts those who choose it.
func Choose(kind string, turn int, bytes int64) (d *Device, release func(), err error) {
	release = func() {}
	number, numbered := numberOf(kind)
	switch {
	case kind == KindGPU:
		return Pick(turn, bytes)
	case numbered:
		d = &Device{Index: number}
		err = d.Probe()
	default:
		d, err = PickFrom(strings.TrimPrefix(kind, KindLibrary), turn)
	}
	return d, release, err
}

// Lanes of work on a device: on rows, and on their way there and back.
const (
	working = iota
	moving
	lanes
)

// stages are pieces of batches that are under way at once, laneStages in each lane;
// pieceBytes is the most that
// one holds of a batch; all of them take a stagesPart-th of the memory, or minPiece rows
// each where that is more and a batch has them.
const (
	laneStages = 3
	stages     = lanes * laneStages
	stagesPart = 8
	pieceBytes = 4 << 20
	minPiece   = 16
)

// layout is how a table's rows lie on a device, in floats, and the pieces of a batch.
type layout struct {
	row, stride int // a row, and from one to the next
	dim         int
	push        int // floats of what updates a row
	piece       int // rows of a piece
}

// layoutOf has pieces that are no larger for fewer rows.
func layoutOf(spec *table.Spec, rows, batchRows int) layout {
	l := layout{row: spec.RowFloats(), dim: spec.Dim, push: spec.Dim}
	if spec.Lifecycle != nil {
		l.push += kernels.PushCounts
	}
	l.stride = (l.row + ptx.Align - 1) / ptx.Align * ptx.Align
	floats := max(l.row, l.push)
	part := min(pieceBytes/4/floats, l.stride*rows/stagesPart/stages/(floats+3))
	l.piece = max(1, min(batchRows, max(minPiece, part)))
	return l
}

// words is how many keys a piece has, or a bucket at least.
func (l *layout) words() int { return max(l.piece, probe.BucketBytes/8) }

// A stage on the device: numbers of rows, floats, keys, and a count.
func (l *layout) idBytes() int   { return align(4 * l.piece) }
func (l *layout) flatBytes() int { return align(4 * l.piece * max(l.row, l.push)) }
func (l *layout) stageBytes() int {
	return l.idBytes() + l.flatBytes() + align(8*l.words()+8)
}

// bytes is all that so many rows take: they, the image of their index, the stages.
func (l *layout) bytes(rows int) int {
	return align(4*l.stride*rows) + indexBytes(rows) + stages*l.stageBytes()
}

func indexBytes(rows int) int { return align(probe.BoundedBuckets(rows) * probe.BucketBytes) }

func align(n int) int { return (n + 255) &^ 255 }

// Slots is how many rows fit beside the stages, with their index, of which every three
// take a bucket.
func (d *Device) Slots(spec *table.Spec, bytes int64, batchRows int) int {
	stride := int64(layoutOf(spec, 0, 0).stride)
	l := layoutOf(spec, int(min(max(0, bytes)/(4*stride), table.MaxRows)), batchRows)
	left := bytes - int64(l.bytes(0)) - 255 - 255 // what rows and index are aligned by
	return int(min(max(0, left*3/int64(3*4*l.stride+probe.BucketBytes)), table.MaxRows))
}

package randread

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"psrt/tiers/blk"
)

// Config is one run.
type Config struct {
	Bytes int // of one read, a multiple of the device's block
	Depth int // reads in flight, at most the device's depth
	Reads int // in all
	Seed  uint64
	// Batch is how many reads are handed over together while answers keep coming; 0
	// is a quarter of Depth.
	Batch int
	// Notified sleeps until the device calls, as lanes do, and not in the device.
	Notified bool
	// Timeout bounds the run; 0 is a minute.
	Timeout time.Duration
}

// Result is what a run took.
type Result struct {
	Reads   int
	Elapsed time.Duration
	CPU     time.Duration // user and system, of the whole process
	Sum     uint64        // of the words that tell places: equal for equal seeds
}

// PerSecond is the rate of reads.
func (r Result) PerSecond() float64 { return float64(r.Reads) / r.Elapsed.Seconds() }

// CPUMicros is the processor time of one read.
func (r Result) CPUMicros() float64 { return float64(r.CPU.Microseconds()) / float64(r.Reads) }

// unit is how often a file says where one is: the smallest block.
const unit = 512

// word is what stands in each unit's first and last 8 bytes.
func word(at int64) uint64 { return uint64(at/unit)*0x9E3779B97F4A7C15 + 1 }

// Prepare makes a file of size bytes, a multiple of 1 MiB, and writes all of
// it: blocks never written are read without a disk.
func Prepare(d blk.Device, name string, size int64) (file int, err error) {
	const chunk = 1 << 20
	if size <= 0 || size%chunk != 0 {
		return -1, fmt.Errorf("randread: a file of %d bytes, want a multiple of %d", size, chunk)
	}
	buf, err := d.Buffers(chunk)
	if err != nil {
		return -1, err
	}
	if file, err = d.Create(name, size); err != nil {
		return -1, err
	}
	for at := int64(0); at < size; at += chunk {
		for i := int64(0); i < chunk; i += unit {
			binary.LittleEndian.PutUint64(buf[i:], word(at+i))
			binary.LittleEndian.PutUint64(buf[i+unit-8:], word(at+i))
		}
		if err := one(d, blk.Request{Op: blk.Write, File: file, Offset: at, Buf: buf}); err != nil {
			return -1, err
		}
	}
	return file, one(d, blk.Request{Op: blk.Sync, File: file})
}

func one(d blk.Device, r blk.Request) error {
	if n, err := d.Submit([]blk.Request{r}); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("randread: %v was not taken", r.Op), err)
	}
	var out [1]blk.Result
	for d.Poll(out[:]) == 0 {
		if err := d.Wait(time.Now().Add(time.Minute)); err != nil {
			return err
		}
	}
	return out[0].Err
}

// Runner reads at random places of a file made by Prepare, as often as Run is
// called.
type Runner struct {
	d    blk.Device
	cfg  Config
	file int
	size int64
	buf  []byte
	at   []int64 // place of each buffer's read
	rng  *rand.PCG
	bell chan struct{} // nil without Notified

	batch []blk.Request
	left  int // reads not begun
	sum   uint64
}

// Open makes a runner with buffers of its own.
func Open(d blk.Device, file int, size int64, cfg Config) (*Runner, error) {
	if cfg.Batch == 0 {
		cfg.Batch = max(1, cfg.Depth/4)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Depth < 1 || cfg.Depth > d.Depth() || cfg.Bytes <= 0 || cfg.Bytes%d.Block() != 0 || cfg.Batch > cfg.Depth || int64(cfg.Bytes) > size {
		return nil, fmt.Errorf("randread: %d reads of %d bytes in flight, in batches of %d, from %s with depth %d", cfg.Depth, cfg.Bytes, cfg.Batch, d, d.Depth())
	}
	buf, err := d.Buffers(cfg.Depth * cfg.Bytes)
	if err != nil {
		return nil, err
	}
	r := &Runner{d: d, cfg: cfg, file: file, size: size, buf: buf, at: make([]int64, cfg.Depth)}
	if cfg.Notified {
		r.bell = make(chan struct{}, 1)
		d.OnResult(func() {
			select {
			case r.bell <- struct{}{}:
			default:
			}
		})
	}
	return r, nil
}

// Seed has the next Run read at other places: those of the last one may lie in
// a cache of the disk.
func (r *Runner) Seed(seed uint64) { r.cfg.Seed = seed }

// Run does cfg.Reads reads.
func (r *Runner) Run() (Result, error) {
	r.rng = rand.NewPCG(r.cfg.Seed, 3)
	r.left, r.sum, r.batch = r.cfg.Reads, 0, r.batch[:0]
	before, start := cpu(), time.Now()
	err := r.run(start.Add(r.cfg.Timeout))
	res := Result{Reads: r.cfg.Reads, Elapsed: time.Since(start), CPU: cpu() - before, Sum: r.sum}
	return res, err
}

func (r *Runner) run(deadline time.Time) error {
	for i := range min(r.cfg.Depth, r.left) {
		r.next(i)
	}
	// A batch at a time: the disk begins with the first while we look at the next.
	out := make([]blk.Result, r.cfg.Batch)
	for done := 0; done < r.cfg.Reads; {
		n := r.d.Poll(out)
		for i := range out[:n] {
			if err := r.answered(&out[i]); err != nil {
				return err
			}
		}
		done += n
		// Nothing is held back while there is nothing else to do.
		if len(r.batch) >= r.cfg.Batch || n == 0 && len(r.batch) > 0 {
			k, err := r.d.Submit(r.batch)
			if err != nil || k != len(r.batch) {
				return errors.Join(fmt.Errorf("randread: %d of %d requests taken", k, len(r.batch)), err)
			}
			r.batch = r.batch[:0]
		} else if n == 0 {
			if err := r.wait(deadline); err != nil {
				return fmt.Errorf("randread: after %d of %d reads: %w", done, r.cfg.Reads, err)
			}
		}
	}
	return nil
}

func (r *Runner) wait(deadline time.Time) error {
	if r.bell == nil {
		return r.d.Wait(deadline)
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-r.bell:
		return nil
	case <-t.C:
		return os.ErrDeadlineExceeded
	}
}

// next draws a place for buffer i.
func (r *Runner) next(i int) {
	n := r.cfg.Bytes
	r.at[i] = int64(r.rng.Uint64()%uint64(r.size/int64(n))) * int64(n)
	r.batch = append(r.batch, blk.Request{Op: blk.Read, File: r.file, Offset: r.at[i], Buf: r.buf[i*n : (i+1)*n], ID: uint64(i)})
	r.left--
}

func (r *Runner) answered(a *blk.Result) error {
	if a.Err != nil {
		return a.Err
	}
	i, n := int(a.ID), r.cfg.Bytes
	b := r.buf[i*n : (i+1)*n]
	first, last := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	if first != word(r.at[i]) || last != word(r.at[i]+int64(n)-unit) {
		return fmt.Errorf("randread: the block at %d holds another's bytes", r.at[i])
	}
	r.sum += first
	if r.left > 0 {
		r.next(i)
	}
	return nil
}

// cpu is the processor time of this process so far, the kernel's for it
// included.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

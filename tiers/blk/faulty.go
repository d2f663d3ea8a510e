package blk

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Harm is what a Fault does.
type Harm uint8

const (
	HarmIO    Harm = iota // the request fails with ErrIO; of a Write nothing reached the disk
	HarmLate              // the request is done and fails with ErrIO all the same
	HarmSpace             // it fails with ErrNoSpace
	HarmShort             // half of the blocks, at least none, are moved; then ErrIO
	HarmFlip              // one bit is wrong: of a Read in the memory, of a Write on the disk
	HarmDelay             // the result comes Fault.Polls calls of Poll later
	HarmGone              // the directory is gone: this and all that follows fails
)

// Fault harms some requests. Operations on names that wait (Create, Rename,
// Remove, Open) are matched as Make, Unlink and, for the others, any Op.
type Fault struct {
	Harm Harm
	On   []Op   // which; none is all
	Name string // of the file, a pattern as of path.Match; empty is any
	// Skip lets so many matching requests pass first; then Times are harmed, 0 is
	// one, -1 all.
	Skip, Times int
	// Chance, if not 0, is the probability that a matching request counts.
	Chance float64
	Polls  int // of HarmDelay
}

// Faulty wraps a device and injects faults, repeatably by a seed.
type Faulty struct {
	Device

	rng    *rand.Rand
	faults []Fault
	fired  int
	gone   bool
	notify func()

	names  map[int]string
	pend   map[uint64]pending // in flight below, by the number given there
	number uint64
	held   []heldResult
	got    []Result
}

type pending struct {
	req   Request
	fault *Fault
	at    int  // of HarmFlip on a Write, flipped in the caller's memory
	bit   byte // until the result
}

type heldResult struct {
	Result

	polls int
}

// NewFaulty wraps a device that nothing was submitted to yet.
func NewFaulty(d Device, seed uint64, faults ...Fault) *Faulty {
	return &Faulty{Device: d, rng: rand.New(rand.NewPCG(seed, 4)), faults: slices.Clone(faults),
		names: map[int]string{}, pend: map[uint64]pending{}}
}

// Inject adds faults, which come after those there are.
func (f *Faulty) Inject(faults ...Fault) { f.faults = append(f.faults, faults...) }

// Heal forgets all faults; a directory that was gone is back, and results that were
// held back come with the next Poll.
func (f *Faulty) Heal() {
	f.faults, f.gone = nil, false
	for i := range f.held {
		f.held[i].polls = 0
	}
}

// Fired counts the requests that were harmed.
func (f *Faulty) Fired() int { return f.fired }

// anyOp matches faults that name no Op.
const anyOp = Op(255)

// match finds the fault that harms a request, if any.
func (f *Faulty) match(op Op, name string) *Fault {
	if f.gone {
		f.fired++
		return &Fault{Harm: HarmGone}
	}
	for i := range f.faults {
		h := &f.faults[i]
		if len(h.On) > 0 && !slices.Contains(h.On, op) {
			continue
		}
		if ok, err := path.Match(h.Name, name); h.Name != "" && (!ok || err != nil) {
			continue
		}
		if h.Times == noneLeft || h.Chance != 0 && f.rng.Float64() >= h.Chance {
			continue
		}
		if h.Skip > 0 {
			h.Skip--
			continue
		}
		switch {
		case h.Times == 0 || h.Times == 1:
			h.Times = noneLeft
		case h.Times > 1:
			h.Times--
		}
		f.fired++
		f.gone = f.gone || h.Harm == HarmGone
		return h
	}
	return nil
}

const noneLeft = -2

// err is what a harmed operation fails with.
func (h *Fault) err(op Op, name string, offset int64) error {
	errno := unix.EIO
	switch h.Harm {
	case HarmSpace:
		errno = unix.ENOSPC
	case HarmGone:
		errno = unix.ENOENT
	}
	return failed(op.String(), name, offset, errno)
}

// early is the error of a call on names that is harmed, nil else. HarmDelay and
// HarmFlip have no meaning there.
func (f *Faulty) early(op Op, name string) (h *Fault, err error) {
	if h = f.match(op, name); h == nil || h.Harm == HarmDelay || h.Harm == HarmFlip {
		return nil, nil
	}
	return h, h.err(op, name, -1)
}

// Create and the next ones are those of Device.
func (f *Faulty) Create(name string, size int64) (int, error) {
	h, bad := f.early(Make, name)
	if bad != nil && h.Harm != HarmLate {
		return -1, bad
	}
	file, err := f.Device.Create(name, size)
	if err != nil {
		return -1, err
	}
	if bad != nil {
		_ = f.Device.CloseFile(file)
		return -1, bad
	}
	f.names[file] = name
	return file, nil
}

func (f *Faulty) Open(name string) (int, int64, error) {
	if _, err := f.early(anyOp, name); err != nil {
		return -1, 0, err
	}
	file, size, err := f.Device.Open(name)
	if err == nil {
		f.names[file] = name
	}
	return file, size, err
}

func (f *Faulty) List() ([]string, error) {
	if f.gone {
		return nil, failed("list", "directory", -1, unix.ENOENT)
	}
	return f.Device.List()
}

func (f *Faulty) Rename(from, to string) error {
	h, bad := f.early(anyOp, from)
	if bad != nil && h.Harm != HarmLate {
		return bad
	}
	if err := f.Device.Rename(from, to); err != nil {
		return err
	}
	for file, name := range f.names {
		if name == from {
			f.names[file] = to
		}
	}
	return bad
}

func (f *Faulty) Remove(name string) error {
	h, bad := f.early(Unlink, name)
	if bad != nil && h.Harm != HarmLate {
		return bad
	}
	if err := f.Device.Remove(name); err != nil {
		return err
	}
	return bad
}

func (f *Faulty) CloseFile(file int) error {
	err := f.Device.CloseFile(file)
	if err == nil {
		delete(f.names, file)
	}
	return err
}

func (f *Faulty) Space() (free, total int64, err error) {
	if f.gone {
		return 0, 0, failed("space", "directory", -1, unix.ENOENT)
	}
	return f.Device.Space()
}

func (f *Faulty) OnResult(call func()) {
	f.notify = call
	f.Device.OnResult(call)
}

func (f *Faulty) Submit(rs []Request) (taken int, err error) {
	for taken < len(rs) && len(f.pend)+len(f.held) < f.Depth() {
		n, err := f.submit(rs[taken])
		if err != nil || n == 0 {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// submit passes one request on, harmed or not, or answers it by itself.
func (f *Faulty) submit(r Request) (int, error) {
	name := r.Name
	if r.Op != Make && r.Op != Unlink {
		name = f.names[r.File]
	}
	p := pending{req: r, fault: f.match(r.Op, name)}
	f.number++
	down := r
	down.ID = f.number
	if p.fault != nil {
		switch p.fault.Harm {
		case HarmIO, HarmSpace, HarmGone:
			return f.answer(Result{ID: r.ID, Err: p.fault.err(r.Op, name, r.Offset)}), nil
		case HarmShort:
			half := len(r.Buf) / f.Block() / 2 * f.Block()
			if half == 0 {
				return f.answer(Result{ID: r.ID, Err: failed(r.Op.String(), name, r.Offset, ErrShort)}), nil
			}
			down.Buf = r.Buf[:half]
		case HarmFlip:
			if len(r.Buf) > 0 {
				p.at, p.bit = f.rng.IntN(len(r.Buf)), 1<<f.rng.IntN(8)
			}
			if r.Op == Write {
				r.Buf[p.at] ^= p.bit
			}
		}
	}
	n, err := f.Device.Submit([]Request{down})
	if n == 1 {
		f.pend[f.number] = p
	} else if p.bit != 0 && r.Op == Write {
		r.Buf[p.at] ^= p.bit
	}
	return n, err
}

func (f *Faulty) answer(r Result) int {
	f.held = append(f.held, heldResult{Result: r})
	if f.notify != nil {
		f.notify()
	}
	return 1
}

func (f *Faulty) Poll(out []Result) int {
	f.got = slices.Grow(f.got[:0], len(out))[:len(out)]
	for _, r := range f.got[:f.Device.Poll(f.got)] {
		f.ended(r)
	}
	n, waits := 0, false
	f.held = slices.DeleteFunc(f.held, func(h heldResult) bool {
		if n == len(out) || h.polls > 0 {
			return false
		}
		out[n] = h.Result
		n++
		return true
	})
	for i := range f.held {
		waits = true
		f.held[i].polls = max(0, f.held[i].polls-1)
	}
	if waits && f.notify != nil {
		f.notify()
	}
	return n
}

// ended takes a result from below and does the harm that comes late.
func (f *Faulty) ended(r Result) {
	p := f.pend[r.ID]
	delete(f.pend, r.ID)
	h := heldResult{Result: r}
	h.ID = p.req.ID
	if p.req.Op == Make && r.Err == nil {
		f.names[r.N] = p.req.Name
	}
	if p.fault != nil {
		name := p.req.Name
		if p.req.Op != Make && p.req.Op != Unlink {
			name = f.names[p.req.File]
		}
		switch p.fault.Harm {
		case HarmLate:
			h.Err = p.fault.err(p.req.Op, name, p.req.Offset)
			if p.req.Op == Make && r.Err == nil {
				_ = f.CloseFile(r.N)
			}
			h.N = 0
		case HarmShort:
			h.Err = failed(p.req.Op.String(), name, p.req.Offset+int64(r.N), ErrShort)
		case HarmFlip:
			if len(p.req.Buf) > 0 {
				p.req.Buf[p.at] ^= p.bit
			}
		case HarmDelay:
			h.polls = p.fault.Polls
		}
	}
	f.held = append(f.held, h)
}

func (f *Faulty) Wait(deadline time.Time) error {
	if len(f.held) > 0 {
		return nil
	}
	return f.Device.Wait(deadline)
}

func (f *Faulty) String() string { return fmt.Sprintf("faulty %s", f.Device) }

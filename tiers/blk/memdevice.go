package blk

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/invariant"
)

// memDevice is a Memory in use.
type memDevice struct {
	disk   *Memory
	pool   pool
	files  []memOpen // by number; f nil where there is none
	flight []memJob
	rng    *rand.Rand
	notify func()
	dead   bool // crashed
	closed bool

	checker invariant.CloseChecker
}

type memOpen struct {
	f      *memFile
	name   string
	flight int
}

type memJob struct {
	Request

	f   *memFile
	seq uint64 // of Sync: covers writes up to here
}

// rubbish is what a Read's memory holds until the answer.
const rubbish = 0xDB

func (d *memDevice) usable() error {
	switch {
	case d.dead:
		return ErrCrashed
	case d.closed:
		return ErrClosed
	}
	return nil
}

// step is usable, and a chance for the test to end that.
func (d *memDevice) step() error {
	if d.usable() == nil && d.disk.cfg.Step != nil {
		d.disk.cfg.Step()
	}
	return d.usable()
}

func (d *memDevice) Block() int { return d.disk.cfg.Block }
func (d *memDevice) Depth() int { return d.disk.cfg.Depth }

func (d *memDevice) Buffers(size int) ([]byte, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	return d.pool.alloc(size)
}

func (d *memDevice) Create(name string, size int64) (int, error) {
	if err := cmp.Or(d.step(), badName(name), badSize(name, size, d.Block())); err != nil {
		return -1, err
	}
	if err := d.disk.create(name, size); err != nil {
		return -1, err
	}
	return d.add(name), nil
}

func (d *memDevice) Open(name string) (int, int64, error) {
	if err := cmp.Or(d.usable(), badName(name)); err != nil {
		return -1, 0, err
	}
	f := d.disk.files[name]
	if f == nil {
		return -1, 0, failed("open", name, -1, unix.ENOENT)
	}
	return d.add(name), f.size, nil
}

func (d *memDevice) add(name string) int {
	i := slices.IndexFunc(d.files, func(o memOpen) bool { return o.f == nil })
	if i < 0 {
		i = len(d.files)
		d.files = append(d.files, memOpen{})
	}
	f := d.disk.files[name]
	f.open++
	d.files[i] = memOpen{f: f, name: name}
	return i
}

func (d *memDevice) List() ([]string, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	return d.disk.names(), nil
}

func (d *memDevice) Rename(from, to string) error {
	if err := cmp.Or(d.step(), badName(from), badName(to)); err != nil {
		return err
	}
	f := d.disk.files[from]
	if f == nil {
		return failed("rename", from, -1, unix.ENOENT)
	}
	if from == to {
		return nil
	}
	if d.disk.files[to] != nil {
		if err := d.disk.remove(to); err != nil {
			return err
		}
	}
	delete(d.disk.files, from)
	d.disk.files[to] = f
	return nil
}

func (d *memDevice) Remove(name string) error {
	if err := cmp.Or(d.step(), badName(name)); err != nil {
		return err
	}
	return d.disk.remove(name)
}

func (d *memDevice) CloseFile(i int) error {
	if err := d.usable(); err != nil {
		return err
	}
	o := d.file(i)
	switch {
	case o == nil:
		return noFile(i)
	case o.flight > 0:
		return fmt.Errorf("%w: closing %s with %d requests in flight; wait for them", ErrRequest, o.name, o.flight)
	}
	o.f.open--
	o.f.forget()
	*o = memOpen{}
	return nil
}

func (d *memDevice) file(i int) *memOpen {
	if i < 0 || i >= len(d.files) || d.files[i].f == nil {
		return nil
	}
	return &d.files[i]
}

func (d *memDevice) Submit(rs []Request) (taken int, err error) {
	if err := d.usable(); err != nil {
		return 0, err
	}
	for i := range rs {
		if len(d.flight) == d.Depth() {
			break
		}
		if err := d.step(); err != nil {
			return taken, err
		}
		j := memJob{Request: rs[i]}
		if j.Op == Make || j.Op == Unlink {
			err = j.checkName(d.Block())
		} else if o := d.file(j.File); o == nil {
			err = noFile(j.File)
		} else if err = j.check(d.Block(), o.f.size, &d.pool); err == nil {
			j.f, j.seq = o.f, o.f.seq
			o.flight++
		}
		if err != nil {
			break
		}
		if j.Op == Read {
			for k := range j.Buf {
				j.Buf[k] = rubbish
			}
		}
		d.flight = append(d.flight, j)
		taken++
	}
	d.tell()
	return taken, err
}

func (d *memDevice) tell() {
	if len(d.flight) > 0 && d.notify != nil {
		d.notify()
	}
}

func (d *memDevice) OnResult(f func()) { d.notify = f }

func (d *memDevice) Poll(out []Result) int {
	if d.usable() != nil {
		return 0
	}
	n := min(len(out), len(d.flight))
	if n > 1 && !d.disk.cfg.InOrder {
		n = 1 + d.rng.IntN(n)
	}
	for k := range n {
		if d.step() != nil {
			return k
		}
		i := 0
		if !d.disk.cfg.InOrder {
			i = d.rng.IntN(len(d.flight))
		}
		j := d.flight[i]
		d.flight = slices.Delete(d.flight, i, i+1)
		out[k] = d.answer(&j)
	}
	if n > 0 {
		d.tell()
	}
	return n
}

func (d *memDevice) Wait(time.Time) error {
	if err := d.usable(); err != nil {
		return err
	}
	if len(d.flight) == 0 {
		return ErrIdle
	}
	return nil
}

func (d *memDevice) answer(j *memJob) Result {
	r := Result{ID: j.ID}
	switch j.Op {
	case Make:
		if r.Err = d.disk.create(j.Name, j.Len); r.Err == nil {
			r.N = d.add(j.Name)
		}
		return r
	case Unlink:
		r.Err = d.disk.remove(j.Name)
		return r
	}
	o := &d.files[j.File]
	o.flight--
	r.N, r.Err = j.apply(o)
	return r
}

// apply lets a request take effect.
func (j *memJob) apply(o *memOpen) (n int, err error) {
	unit := int64(j.f.disk.cfg.Block)
	first := j.Offset / unit
	switch j.Op {
	case Read:
		for at := int64(0); at < int64(len(j.Buf)); at += unit {
			copy(j.Buf[at:at+unit], j.f.block(first+at/unit))
		}
		return len(j.Buf), nil
	case Write:
		j.f.seq++
		for at := int64(0); at < int64(len(j.Buf)); at += unit {
			if !j.f.take(first + at/unit) {
				return int(at), failed("write", o.name, j.Offset+at, unix.ENOSPC)
			}
			j.f.write(first+at/unit, j.Buf[at:at+unit])
		}
		return len(j.Buf), nil
	case Discard:
		j.f.seq++
		for b := first; b < first+j.Len/unit; b++ {
			j.f.write(b, nil)
			j.f.give(b)
		}
	case Sync:
		j.f.sync(j.seq)
	}
	return 0, nil
}

// interrupted leaves a trace of a request that a crash found in flight.
func (j *memJob) interrupted(m *Memory, rng *rand.Rand) {
	switch j.Op {
	case Make:
		if size := j.Len * int64(rng.IntN(2)); rng.IntN(3) > 0 && m.files[j.Name] == nil {
			_ = m.create(j.Name, size) // a full disk: no file
		}
	case Unlink:
		if rng.IntN(2) == 0 {
			_ = m.remove(j.Name) // it may be gone already
		}
	case Write, Discard:
		unit := int64(m.cfg.Block)
		for at := int64(0); at < max(int64(len(j.Buf)), j.Len); at += unit {
			v := version{}
			if j.Op == Write {
				v.block = slices.Clone(j.Buf[at : at+unit])
			}
			b := (j.Offset + at) / unit
			if j.Op == Write && !j.f.take(b) {
				return // the disk is full
			}
			h := j.f.history(b)
			h.writes = append(h.writes, v)
		}
	}
}

func (d *memDevice) Space() (free, total int64, err error) {
	return d.disk.cfg.Bytes - d.disk.used, d.disk.cfg.Bytes, d.usable()
}

func (d *memDevice) String() string { return fmt.Sprintf("memory, %d B blocks", d.Block()) }

// Close answers what is in flight first, as kernels do, unless power failed.
func (d *memDevice) Close() error {
	if d.closed {
		return nil
	}
	d.checker.Close()
	var out [16]Result
	for len(d.flight) > 0 {
		d.Poll(out[:]) // also ends when Step cuts the power
	}
	d.closed = true
	if d.disk.open == d {
		d.disk.open = nil
		for i := range d.files {
			if f := d.files[i].f; f != nil {
				f.open--
				f.forget()
			}
		}
	}
	return d.pool.close()
}

package blk

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/invariant"
)

// plainDevice is a Device over pread and pwrite: a few goroutines, each with a
// thread that waits for the disk.
type plainDevice struct {
	*folder
	pool  pool
	depth int
	why   error // io_uring is not used; nil when it was not asked for

	work    chan job
	workers sync.WaitGroup
	flight  int // taken and not answered to the caller

	notify  func()
	wake    chan struct{} // holds one when done grew
	waiting atomic.Int32  // len(done)
	mu      sync.Mutex
	done    []job

	checker invariant.CloseChecker
}

// job is a request and what became of it.
type job struct {
	Request

	fd  int // of Make, the new one
	n   int
	err error
}

// maxWorkers bounds the threads that wait for one disk.
const maxWorkers = 16

func newPlain(d *folder, cfg *Config, why error) *plainDevice {
	p := &plainDevice{folder: d, depth: cfg.Depth, why: why, work: make(chan job, cfg.Depth), wake: make(chan struct{}, 1)}
	for range min(cfg.Depth, maxWorkers) {
		p.workers.Go(p.run)
	}
	p.checker.Open("block device", d.path)
	return p
}

func (p *plainDevice) run() {
	for j := range p.work {
		p.do(&j)
		p.mu.Lock()
		p.done = append(p.done, j) // at most depth
		p.mu.Unlock()
		p.waiting.Add(1)
		select {
		case p.wake <- struct{}{}:
		default:
		}
		if p.notify != nil {
			p.notify()
		}
	}
}

func (p *plainDevice) do(j *job) {
	var err error
	switch j.Op {
	case Read, Write:
		for j.n < len(j.Buf) {
			var k int
			err = again(func() (err error) {
				if j.Op == Read {
					k, err = unix.Pread(j.fd, j.Buf[j.n:], j.Offset+int64(j.n))
				} else {
					k, err = unix.Pwrite(j.fd, j.Buf[j.n:], j.Offset+int64(j.n))
				}
				return err
			})
			if err == nil && (k <= 0 || k%p.block != 0) {
				err = ErrShort
			}
			if err != nil {
				break
			}
			j.n += k
		}
	case Sync:
		err = again(func() error { return unix.Fdatasync(j.fd) })
	case Discard:
		err = again(func() error { return unix.Fallocate(j.fd, punch, j.Offset, j.Len) })
	case Make:
		j.fd, j.err = p.make(j.Name, j.Len)
	case Unlink:
		j.err = p.unlink(j.Name)
	}
	if err != nil {
		j.err = failed(j.Op.String(), p.full(j.Name), j.Offset+int64(j.n), err)
	}
}

func (p *plainDevice) Depth() int { return p.depth }

func (p *plainDevice) Buffers(size int) ([]byte, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	return p.pool.alloc(size)
}

func (p *plainDevice) OnResult(f func()) { p.notify = f }

func (p *plainDevice) Submit(rs []Request) (taken int, err error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	for i := range rs {
		if p.flight == p.depth {
			break
		}
		j := job{Request: rs[i], fd: -1}
		if j.Op == Make || j.Op == Unlink {
			err = j.checkName(p.block)
		} else if f := p.file(j.File); f == nil {
			err = noFile(j.File)
		} else if err = j.check(p.block, f.size, &p.pool); err == nil {
			j.fd, j.Name = f.fd, f.name
			f.flight++
		}
		if err != nil {
			return taken, err
		}
		p.flight++
		p.work <- j // has room for depth
		taken++
	}
	return taken, nil
}

func (p *plainDevice) Poll(out []Result) int {
	if p.waiting.Load() == 0 {
		return 0
	}
	p.mu.Lock()
	n := min(len(out), len(p.done))
	got := p.done[:n:n]
	p.done = p.done[n:]
	p.mu.Unlock()
	p.waiting.Add(-int32(n))
	p.flight -= n
	for i := range got {
		j := &got[i]
		out[i] = Result{ID: j.ID, N: j.n, Err: j.err}
		switch {
		case j.Op == Make && j.err == nil:
			out[i].N, out[i].Err = p.add(j.fd, j.Name, j.Len)
		case j.Op != Make && j.Op != Unlink:
			p.files[j.File].flight--
		}
	}
	return n
}

func (p *plainDevice) Wait(deadline time.Time) error {
	if err := p.open(); err != nil {
		return err
	}
	if p.flight == 0 {
		return ErrIdle
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	for p.waiting.Load() == 0 {
		select {
		case <-p.wake: // may be an old one
		case <-t.C:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

func (p *plainDevice) String() string {
	s := fmt.Sprintf("pread, %s, %s", p.unit(), p.path)
	if p.why != nil {
		s += fmt.Sprintf(" (slower than io_uring: %v)", p.why)
	}
	return s
}

func (p *plainDevice) inFlight() int { return p.flight }

func (p *plainDevice) Close() error {
	if p.dir == nil {
		return nil
	}
	p.checker.Close()
	err := drain(p, p.inFlight, closeTimeout)
	close(p.work)
	if p.flight > 0 {
		return err // threads hang in the kernel: their files and memory stay
	}
	p.workers.Wait()
	return errors.Join(err, p.pool.close(), p.folder.close())
}

package ssd

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"psrt/tiers/blk"
)

// Store is the logs of one lane on its devices. All calls belong to one
// goroutine.
type Store struct {
	cfg          Config
	id           [16]byte
	id64         uint64
	block        int
	segmentBytes int
	disks        []*disk
	wake         chan struct{}
	onResult     atomic.Pointer[func()] // set by the owner, called by devices' goroutines

	summed [24]byte // recordSum's: of its own it would be one more piece of heap a row

	ops     []*op
	freeOps []*op
	segs    []segment
	logs    map[uint32]*Log
	byName  map[string]uint32
	known   map[uint32]logEntry // as the manifest will have them
	current []*stream           // that have a chunk, oldest first

	clock         uint64 // counts records; never goes back
	total         int    // segments in files
	planned       int    // with those of files being made
	limitSegments int
	unmade        []unmade
	nextExtent    uint32
	growAgain     time.Duration // after a file could not be made
	used          int           // segments that are not free
	sealedCount   int           // those of them that nothing is written to
	live          int64         // bytes of live rows with what belongs to them
	reading       int           // rows
	returning     int           // segments that a commit of compaction's own would free
	noDiscard     bool

	writes  window
	rescues []*chunk
	// noRescue is why the first of them waits.
	noRescue error
	commits  commits
	man      manifest
	compact  compaction

	events  Events
	early   []ReadDone // ended inside Read
	err     error
	closed  bool
	counted Stats

	diskWritten, userWritten int64
}

// growAgain is how long a device that was full is left alone.
const growAgain = 10 * time.Second

// openTimeout bounds the wait for one answer of a disk while a store is opened.
const openTimeout = 2 * time.Minute

// Poll handles what disks have done, and goes on with commits and compaction, a
// bounded piece at a time. What it returns is good until the next call.
func (s *Store) Poll() Events {
	clear(s.events.Reads)
	s.events.Reads = append(s.events.Reads[:0], s.early...)
	s.early = s.early[:0]
	s.events.Commits = s.events.Commits[:0]
	if s.closed {
		return s.events
	}
	s.poll()
	s.rescue()
	s.compactStep()
	s.commitStep()
	s.pump()
	if len(s.rescues) > 0 && s.noRescue == ErrBusy && !s.working() && !s.busy() {
		s.signal() // it waited for what has ended since, without giving room: it is full
	}
	return s.events
}

func (s *Store) poll() bool {
	any := false
	for _, d := range s.disks {
		d.pump()
		for d.reap() {
			any = true
			d.pump()
		}
	}
	return any
}

func (s *Store) pump() {
	for _, d := range s.disks {
		d.pump()
	}
}

// Wait returns when Poll may find something new; os.ErrDeadlineExceeded if that
// does not come before the deadline. Nothing in flight is nothing to wait for.
func (s *Store) Wait(deadline time.Time) error {
	s.pump() // what was queued since the last Poll
	if len(s.early) > 0 || s.refused() || !s.busy() {
		return nil
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-s.wake:
		return nil
	case <-t.C:
		return fmt.Errorf("ssd: no disk has answered: %w", os.ErrDeadlineExceeded)
	}
}

// refused is whether a device has said no to something that Poll will end.
func (s *Store) refused() bool {
	return slices.ContainsFunc(s.disks, func(d *disk) bool { return len(d.refused) > 0 })
}

func (s *Store) busy() bool {
	for _, d := range s.disks {
		if d.inFlight > 0 || d.reads.len() > 0 || d.writes.len() > 0 {
			return true
		}
	}
	return false
}

// OnResult has f called, from any goroutine, whenever Poll may find something
// new. f must not wait.
func (s *Store) OnResult(f func()) { s.onResult.Store(&f) }

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if f := s.onResult.Load(); f != nil {
		(*f)()
	}
}

// until polls until done. It is for opening and closing.
func (s *Store) until(done func() bool) error {
	for {
		s.poll()
		if done() {
			return nil
		}
		if s.err != nil {
			return s.err
		}
		if err := s.await(); err != nil {
			return err
		}
	}
}

// await waits for any answer of the first disk that owes one.
func (s *Store) await() error {
	for _, d := range s.disks {
		if d.inFlight == len(d.refused) {
			continue
		}
		err := d.dev.Wait(time.Now().Add(openTimeout))
		if err != nil && !errors.Is(err, blk.ErrIdle) {
			return fmt.Errorf("ssd: %v: %w", d.dev, err)
		}
		return nil
	}
	if !s.busy() {
		return errors.New("ssd: internal: waiting for nothing")
	}
	return nil
}

// do makes one request and waits.
func (s *Store) do(d *disk, r blk.Request) (n int, err error) {
	ended := false
	d.send(r, func(res blk.Result) { ended, n, err = true, res.N, res.Err })
	if werr := s.until(func() bool { return ended }); werr != nil {
		return 0, werr
	}
	return n, err
}

// fail keeps the first error that the store cannot go on after. What is on the
// disks is the last commit point.
func (s *Store) fail(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("%w (%w); reads go on; what the last commit covered is on the disks: mend them and restart", ErrFailed, err)
	}
}

// Err is why the store takes nothing more, or nil.
func (s *Store) Err() error { return s.err }

// Close lets go of the devices. It does not commit.
func (s *Store) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, d := range s.disks {
		errs = append(errs, d.dev.Close())
	}
	s.segs, s.disks, s.ops, s.current = nil, nil, nil, nil
	return errors.Join(errs...)
}

package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Reader runs one worker through its share, epoch after epoch. It belongs to
// one goroutine; only Step.Release may be called from others.
type Reader struct {
	src    *Source
	share  Share
	opts   ReaderOptions
	ctx    context.Context
	cancel context.CancelFunc
	pool   *stepPool
	store  *store // memory mode, once loaded
	epoch  int
	steps  stepper // nil until the epoch's first Next
	closed bool

	// Of a stream: held is the scanner's while there is one.
	held     held
	startsMu sync.Mutex
	starts   map[int]Cursor // where passes begin
}

// stepper gives the steps of one epoch. close may be called more than once.
type stepper interface {
	next() (*Step, error)
	close()
}

// Modes of ReaderOptions.
const (
	Queue  = "queue"
	Memory = "memory"
)

const (
	defaultWindow = 16
	maxWindow     = 1 << 16
	maxThreads    = 1 << 10
)

// NewReader makes a reader that stands before epoch 0. Cancelling the context
// ends it like Close.
func (s *Source) NewReader(ctx context.Context, share Share, opts ReaderOptions) (*Reader, error) {
	opts.Mode = cmp.Or(opts.Mode, Queue)
	opts.Threads = cmp.Or(opts.Threads, 1)
	opts.Window = cmp.Or(opts.Window, defaultWindow)
	switch {
	case opts.Mode != Queue && opts.Mode != Memory:
		return nil, &Error{Msg: fmt.Sprintf("reading mode %q is unknown; known are queue, memory", opts.Mode)}
	case opts.Global && (opts.Mode != Memory || !opts.Shuffle):
		return nil, fmt.Errorf("dataset: a global shuffle in mode %s (shuffle: %v), want memory with", opts.Mode, opts.Shuffle)
	case opts.Threads < 1 || opts.Threads > maxThreads:
		return nil, fmt.Errorf("dataset: %d parsing threads, must be 1 to %d", opts.Threads, maxThreads)
	case opts.Window < 1 || opts.Window > maxWindow:
		return nil, fmt.Errorf("dataset: shuffle window of %d batches, must be 1 to %d", opts.Window, maxWindow)
	}
	if err := share.Validate(); err != nil {
		return nil, err
	}
	switch {
	case opts.Global && opts.Parts == nil && share != Whole(share.Batch, share.Micro):
		return nil, fmt.Errorf("dataset: a global shuffle by a reader of leaves %d to %d, which needs the other readers: give Parts", share.First, share.Last)
	case opts.Parts != nil && !opts.Global:
		return nil, errors.New("dataset: Parts are for a global shuffle")
	case opts.Parts != nil:
		if err := opts.Parts.validate(share); err != nil {
			return nil, err
		}
	}
	if s.feed != nil && (opts.Mode != Queue || opts.Shuffle) {
		return nil, fmt.Errorf("dataset: a stream in mode %s (shuffle: %v), want queue without", opts.Mode, opts.Shuffle)
	}
	ctx, cancel := context.WithCancel(ctx)
	size := 2 * aheadSteps
	if opts.Shuffle && opts.Mode == Queue {
		size += opts.Window
	}
	return &Reader{src: s, share: share, opts: opts, ctx: ctx, cancel: cancel, pool: newStepPool(size), starts: map[int]Cursor{0: {}}}, nil
}

// Next gives the epoch's next step, valid until its Release; one that is never
// released is collected as garbage. At the end of the epoch it gives io.EOF.
// Bad input is an *Error, and repeats.
func (r *Reader) Next() (*Step, error) {
	if r.closed {
		return nil, fmt.Errorf("dataset: Next on a closed reader")
	}
	if r.steps == nil {
		steps, err := r.start()
		if err != nil {
			steps = broken{err}
		}
		r.steps = steps
	}
	step, err := r.steps.next()
	if p, ok := r.steps.(*pipeline); ok && err == io.EOF && r.src.feed != nil {
		r.noteEnd(p)
	}
	return step, err
}

// Epoch ends the running epoch, finished or not, and puts the reader before
// epoch n. The number chooses the shuffle.
func (r *Reader) Epoch(n int) error {
	if n < 0 || r.closed {
		return fmt.Errorf("dataset: epoch %d asked of a reader (closed: %v); epochs count from 0", n, r.closed)
	}
	r.stop()
	r.epoch = n
	return nil
}

// Load reads what Memory keeps, which the first step does else, and lets the other
// readers of Parts have it. It must not run beside Next.
func (r *Reader) Load() error {
	if r.opts.Mode != Memory || r.store != nil {
		return nil
	}
	store, err := r.load()
	if err != nil {
		return err
	}
	if r.opts.Global {
		if err := store.orderable(); err != nil {
			return err
		}
	}
	r.store = store
	if p := r.opts.Parts; p != nil {
		share := r.share
		p.Rows.Offer(func(rows []uint32, into []byte) (int, int, error) { return store.pack(share, rows, into) })
	}
	return nil
}

func (r *Reader) start() (stepper, error) {
	if r.opts.Mode == Memory {
		if err := r.Load(); err != nil {
			return nil, err
		}
		if r.opts.Shuffle {
			st, share, how, global, parts := r.store, r.share, r.shuffle(), r.opts.Global, r.opts.Parts
			return newGather(r.ctx, st, share, func(ctx context.Context) order {
				if global {
					return newEverywhere(ctx, st, share, how, parts, r.opts.Busy)
				}
				return newPartitions(st, share, how)
			}, r.opts.Busy, r.pool), nil
		}
		return &replay{store: r.store}, nil
	}
	if r.src.feed != nil {
		from, ok := r.Start(r.epoch)
		if !ok {
			return nil, fmt.Errorf("dataset: pass %d of a stream asked, whose beginning is not known: the one before was not read to its end", r.epoch)
		}
		return startStream(r.ctx, r.src, r.share, r.opts, r.pool, &r.held, r.epoch, from), nil
	}
	p := startPipeline(r.ctx, r.src, r.share, r.opts, r.pool)
	if r.opts.Shuffle {
		return newWindow(p, r.share, r.shuffle(), r.opts, r.pool), nil
	}
	return p, nil
}

func (r *Reader) shuffle() shuffle { return shuffle{seed: r.opts.Seed, epoch: uint64(r.epoch)} }

func (r *Reader) stop() {
	if r.steps != nil {
		r.steps.close()
		r.steps = nil
	}
}

// Cancel ends whatever the reader waits for: Next gives an error soon. Any goroutine
// may call it; Close must follow.
func (r *Reader) Cancel() { r.cancel() }

// Close ends the reader's goroutines and waits for them. Steps still held stay
// valid.
func (r *Reader) Close() error {
	r.cancel()
	r.stop()
	r.held.close()
	r.closed = true
	r.store = nil
	return nil
}

// broken is an epoch that could not begin.
type broken struct{ err error }

func (b broken) next() (*Step, error) { return nil, b.err }
func (b broken) close()               {}

// replay serves the rows in memory as they are.
type replay struct {
	store *store
	at    int
}

func (r *replay) next() (*Step, error) {
	if r.at == len(r.store.steps) {
		return nil, io.EOF
	}
	step := *r.store.steps[r.at]
	r.at++
	return &step, nil
}

func (r *replay) close() {}

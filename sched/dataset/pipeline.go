package dataset

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"psrt/sched/usage"
)

// aheadSteps is how many steps may be parsed and waiting for the consumer.
const aheadSteps = 4

// pending is a step whose leaves are still being parsed.
type pending struct {
	step *Step
	left atomic.Int32  // leaves not parsed yet, and one for the scanner
	done chan struct{} // closed when left reaches 0

	mu   sync.Mutex
	leaf int // the first bad leaf
	err  error
}

func (p *pending) finish() {
	if p.left.Add(-1) == 0 {
		close(p.done)
	}
}

func (p *pending) fail(leaf int, err error) {
	p.mu.Lock()
	if p.err == nil || leaf < p.leaf {
		p.leaf, p.err = leaf, err
	}
	p.mu.Unlock()
}

// pipeline is one pass over the files: a scanner, some parsers, and steps in
// order. Its memory is bounded by aheadSteps steps waiting, one being filled, one
// a waiting consumer has taken, and two leaf texts a parser.
type pipeline struct {
	src    *Source
	share  Share
	cancel context.CancelFunc
	ctx    context.Context
	order  chan *pending
	tasks  chan *leafText
	idle   chan *leafText // texts to fill again
	pool   *stepPool
	busy   *usage.Clock
	limit  *Limit
	wait   sync.WaitGroup
	err    error // sticky

	reader context.Context // lives longer than the pass
	end    Cursor          // of the pass, the scanner's until order is closed
	says   func(string)    // ReaderOptions.Note
}

func startPipeline(ctx context.Context, src *Source, share Share, opts ReaderOptions, pool *stepPool) *pipeline {
	p := newPipeline(ctx, src, share, opts, pool)
	p.start(opts, func(s *scanner) error { return s.files() })
	return p
}

// startStream is one pass of a stream, from a place in it.
func startStream(ctx context.Context, src *Source, share Share, opts ReaderOptions, pool *stepPool, h *held, pass int, from Cursor) *pipeline {
	p := newPipeline(ctx, src, share, opts, pool)
	p.start(opts, func(s *scanner) error {
		s.at, s.index, s.first = from, from.Step, from.First
		return s.stream(h, pass)
	})
	return p
}

func newPipeline(ctx context.Context, src *Source, share Share, opts ReaderOptions, pool *stepPool) *pipeline {
	threads, outer := opts.Threads, ctx
	ctx, cancel := context.WithCancel(ctx)
	p := &pipeline{
		src: src, share: share, reader: outer, ctx: ctx, cancel: cancel, pool: pool, busy: opts.Busy, limit: opts.Limit, says: opts.Note,
		order: make(chan *pending, aheadSteps),
		tasks: make(chan *leafText, threads),
		idle:  make(chan *leafText, 2*threads+1),
	}
	for range cap(p.idle) {
		p.idle <- new(leafText)
	}
	return p
}

func (p *pipeline) start(opts ReaderOptions, scan func(*scanner) error) {
	p.wait.Go(func() {
		opts.begun(true)
		p.scan(scan)
	})
	for range opts.Threads {
		p.wait.Go(func() {
			opts.begun(false)
			p.parse()
		})
	}
}

func (p *pipeline) parse() {
	for t := range p.tasks {
		b := t.batch
		if err := p.ctx.Err(); err != nil { // a step without this leaf is none
			b.fail(t.leaf, err)
		} else {
			p.limit.enter()
			p.busy.Enter()
			leaf := &b.step.Leaves[t.leaf]
			if err := parseLeaf(p.src.parser, t, leaf); err != nil {
				b.fail(t.leaf, err)
			}
			p.busy.Leave()
			p.limit.leave()
		}
		t.reset()
		p.idle <- t // never blocks: idle has room for every text
		b.finish()
	}
}

// next waits for the next step. After io.EOF or an error it repeats it.
func (p *pipeline) next() (*Step, error) {
	if p.err != nil {
		return nil, p.err
	}
	step, err := p.wait1()
	if err != nil {
		p.err = err
		p.close()
	}
	return step, err
}

func (p *pipeline) wait1() (*Step, error) {
	var b *pending
	var ok bool
	select {
	case b, ok = <-p.order:
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
	if !ok {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	select {
	case <-b.done:
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.step, nil
}

// close ends all goroutines of the pass and waits for them.
func (p *pipeline) close() {
	p.cancel()
	p.wait.Wait()
}

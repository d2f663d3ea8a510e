package train

import "sync"

// pool runs numbered tasks on a fixed number of goroutines. The caller is one
// of them; which goroutine runs a task never changes its result.
type pool struct {
	threads int // that there are
	now     int // of them, that work; the caller may change it between two calls
	work    chan func(thread int)
	done    sync.WaitGroup
	tick    func() // the caller's, between its tasks; may be nil
}

// newPool starts the others, each of which calls begun first.
func newPool(threads int, begun func()) *pool {
	p := &pool{threads: threads, now: threads, work: make(chan func(int))}
	for t := 1; t < threads; t++ {
		go func() {
			begun()
			for f := range p.work {
				f(t)
				p.done.Done()
			}
		}()
	}
	return p
}

// each runs f(thread, task) for task 0..n-1 and returns when all are done.
func (p *pool) each(n int, f func(thread, task int)) {
	if p.now == 1 || n == 1 {
		for i := range n {
			f(0, i)
			p.between(0)
		}
		return
	}
	var mu sync.Mutex
	next := 0
	loop := func(thread int) {
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= n {
				return
			}
			f(thread, i)
			p.between(thread)
		}
	}
	helpers := min(p.now, n) - 1
	p.done.Add(helpers)
	for range helpers {
		p.work <- loop
	}
	loop(0)
	p.done.Wait()
}

// ranges cuts [0, n) into pieces for the threads and runs f on each.
func (p *pool) ranges(n int, f func(from, to int)) {
	if n == 0 {
		return
	}
	pieces := min(p.now, n)
	p.each(pieces, func(_, i int) { f(n*i/pieces, n*(i+1)/pieces) })
}

// ticking has the caller of each call tick between its tasks, until end, which tells
// of the first error; tick is not called after that one.
func (p *pool) ticking(tick func() error) (end func() error) {
	var err error
	p.tick = func() {
		if err == nil {
			err = tick()
		}
	}
	return func() error { p.tick = nil; return err }
}

func (p *pool) between(thread int) {
	if thread == 0 && p.tick != nil {
		p.tick()
	}
}

func (p *pool) close() { close(p.work) }

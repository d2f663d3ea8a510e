package coll

// Pending is a call that was started.
type Pending struct {
	done chan struct{}
	err  error
}

// NewPending makes one that is not over; implementations end it by Finish.
func NewPending() *Pending { return &Pending{done: make(chan struct{})} }

// Finish ends it, once.
func (p *Pending) Finish(err error) {
	p.err = err
	close(p.done)
}

// Done is closed when the call is over.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the end, which the call's time bounds.
func (p *Pending) Wait() error {
	<-p.done
	return p.err
}

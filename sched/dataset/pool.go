package dataset

// stepPool keeps the leaves of a few released steps for reuse. Steps nobody
// releases are left to the garbage collector, so a consumer that keeps one is
// always safe. The Step itself is new each time: a second Release of an old one
// cannot touch whoever has its leaves now.
type stepPool struct {
	free chan []Batch
}

func newStepPool(size int) *stepPool { return &stepPool{free: make(chan []Batch, size)} }

func (p *stepPool) take(share Share) *Step {
	s := &Step{release: p.put}
	select {
	case s.Leaves = <-p.free:
	default:
		s.Leaves = make([]Batch, share.Last-share.First)
	}
	for i := range s.Leaves {
		s.Leaves[i].Reset()
	}
	return s
}

func (p *stepPool) put(leaves []Batch) {
	select {
	case p.free <- leaves:
	default:
	}
}

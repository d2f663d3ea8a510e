package dataset

// stepPool keeps a few released steps for reuse. Steps nobody releases are left
// to the garbage collector, so a consumer that keeps one is always safe.
type stepPool struct {
	free chan *Step
}

func newStepPool(size int) *stepPool { return &stepPool{free: make(chan *Step, size)} }

func (p *stepPool) take(share Share) *Step {
	var s *Step
	select {
	case s = <-p.free:
	default:
		s = &Step{Leaves: make([]Batch, share.Last-share.First)}
	}
	for i := range s.Leaves {
		s.Leaves[i].Reset()
	}
	s.release = p.put
	return s
}

func (p *stepPool) put(s *Step) {
	select {
	case p.free <- s:
	default:
	}
}

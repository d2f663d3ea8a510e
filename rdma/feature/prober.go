package feature

import (
	"errors"
	"sync"
)

// Prober runs Tests against one machine and remembers yes and no. Safe for
// concurrent use.
type Prober struct {
	root Root

	mu     sync.Mutex
	probed map[string]error // by Test.Name
}

// NewProber asks the machine whose /proc and /sys lie under root; "" is this
// one. Probes that try a system call try it on this machine in any case.
func NewProber(root string) *Prober {
	return &Prober{root: Root(root), probed: map[string]error{}}
}

// Check answers t: nil, an error that is ErrNotSupported, or an UnknownError.
func (p *Prober) Check(t Test) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err, ok := p.probed[t.Name]; ok {
		return err
	}
	err := t.Probe(p.root)
	var no *MissingError
	switch {
	case err == nil:
	case errors.As(err, &no):
		err = &MissingError{Test: t, Detail: no.Detail}
	default:
		return &UnknownError{Test: t, Cause: err}
	}
	p.probed[t.Name] = err
	return err
}

// Answer is one line of a report.
type Answer struct {
	Test Test
	Err  error // as Check
}

// Report checks all tests in order.
func (p *Prober) Report(tests []Test) []Answer {
	answers := make([]Answer, 0, len(tests))
	for _, t := range tests {
		answers = append(answers, Answer{Test: t, Err: p.Check(t)})
	}
	return answers
}

// All lists the tests of this package in the order of a report.
func All() []Test {
	return []Test{LockedMemory, HugePages, TransparentHugePages, SharedTransparentHugePages,
		MemfdHugePages, MemoryBinding, SeveralNodes, RDMADevice, AVX2, AVX512}
}

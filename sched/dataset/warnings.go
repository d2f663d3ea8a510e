package dataset

import "sync"

// warnings passes on what readers find wrong with a file and read on after, each text once.
type warnings struct {
	mu   sync.Mutex
	to   func(string)
	told map[string]bool
}

// OnWarning has the source's readers report, once per source, what is wrong with a file that
// they can read nevertheless. Any goroutine of a reader calls to, one at a time; it must not
// block. Call OnWarning before the first reader is made.
func (s *Source) OnWarning(to func(string)) { s.warned.to = to }

func (s *Source) warn(text string) {
	w := &s.warned
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to == nil || w.told[text] {
		return
	}
	if w.told == nil {
		w.told = make(map[string]bool)
	}
	w.told[text] = true
	w.to(text)
}

package verbs

import (
	"maps"
	"slices"
)

// Vanish does to the domain's peers what the death of its process would: the
// queue pairs are gone from one moment to the next, nothing is flushed and
// nobody is told. Close works after it.
func (d *Domain) Vanish() error {
	d.mu.Lock()
	endpoints := slices.Collect(maps.Keys(d.endpoints))
	d.mu.Unlock()
	for _, ep := range endpoints {
		ep.mu.Lock()
		ep.state = broken // no sign of life is sent any more
		ep.cause = ep.failure(0, 0, 0, errStopped)
		err := ep.qp.Reset()
		ep.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

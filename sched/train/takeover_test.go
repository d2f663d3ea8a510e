package train

import (
	"errors"
	"testing"

	"psrt/sched/client"
	"psrt/sched/coord/local"
)

// A worker that was stopped and wakes behind its heir writes nothing over where that one
// stands.
func TestStandOfAReplacedWorker(t *testing.T) {
	c := local.New()
	at := func(generation, epoch int) *worker {
		w := &worker{job: &Job{Workers: 2}, rank: &Rank{Index: 1, Generation: generation, Coord: c}, clock: uint64(10 * epoch)}
		w.pos.Epoch = epoch
		return w
	}
	for _, w := range []*worker{at(1, 1), at(2, 2), at(2, 3)} {
		if err := w.stand(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := at(1, 4).stand(t.Context()); !errors.Is(err, client.ErrTakenOver) {
		t.Errorf("the process before: %v", err)
	}
	heir := at(3, 0)
	if known, err := heir.inherit(t.Context()); err != nil || !known || heir.pos.Epoch != 3 || heir.clock != 30 {
		t.Errorf("known %v, %v: pass %d, step %d", known, err, heir.pos.Epoch, heir.clock)
	}
	if err := at(0, 0).stand(t.Context()); err != nil {
		t.Errorf("where no number has an heir: %v", err)
	}
}

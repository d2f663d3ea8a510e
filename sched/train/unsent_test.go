package train

import (
	"encoding/json"
	"strings"
	"testing"

	"psrt/sched/coord/local"
)

// A worker in BSP that hears of a checkpoint when it has pushed the step already has not what
// belongs to it, and says so; one that hears in time waits for the step.
func TestUnsentHeardTooLate(t *testing.T) {
	c := local.New()
	defer c.Close()
	w := &worker{job: &Job{Sync: BSP}, rank: &Rank{Coord: c, Index: 3}}
	u := &unsent{w: w, ctx: t.Context()}
	tell := func(o unsentOrder) {
		t.Helper()
		b, err := json.Marshal(o)
		if err == nil {
			_, err = c.Put(t.Context(), keyUnsent, b, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	u.look()
	u.save(6) // nobody has said anything
	tell(unsentOrder{Number: 1, Step: 9})
	u.look()
	if u.save(8); u.order == nil || u.done != 0 {
		t.Fatalf("at step 8 %+v is to be done, %d is", u.order, u.done)
	}
	u.look()
	if u.save(10); u.order != nil || u.done != 1 {
		t.Fatalf("at step 10 %+v is to be done, %d is", u.order, u.done)
	}
	u.close()
	var said unsentSaid
	kv, err := c.Get(t.Context(), unsentKey(1, 3))
	if err == nil {
		err = json.Unmarshal(kv.Value, &said)
	}
	if err != nil || !strings.Contains(said.Failure, "worker 3 heard of it too late") {
		t.Errorf("it says %+v, %v", said, err)
	}
	u.look()
	if u.save(11); u.order != nil {
		t.Error("it is to be done again")
	}
}

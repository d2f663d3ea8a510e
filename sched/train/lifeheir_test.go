package train

import (
	"errors"
	"testing"

	"psrt/sched/client"
	"psrt/sched/coord/local"
)

// A process that another has replaced does not write down where the table's life stands.
func TestLifeCardOfTheNewest(t *testing.T) {
	c := local.New()
	defer c.Close()
	of := func(generation, days int) *keeper {
		return &keeper{w: &worker{rank: &Rank{Coord: c, Generation: generation}, pos: position{Life: lifeAt{Events: days, Days: days}}}}
	}
	for _, k := range []*keeper{of(1, 1), of(1, 2), of(2, 3)} {
		if err := k.writeDown(t.Context(), lifeCard{Clock: 7}); err != nil {
			t.Fatal(err)
		}
	}
	old := of(1, 4)
	if err := old.writeDown(t.Context(), lifeCard{Clock: 8}); !errors.Is(err, client.ErrTakenOver) {
		t.Errorf("%v, want that its number was taken over", err)
	}
	card, err := old.w.readLife(t.Context())
	if err != nil || card.Life.Days != 3 || card.Clock != 7 || card.Generation != 2 {
		t.Errorf("%+v, %v", card, err)
	}
}

// What is written down behind a report of the same step counts, and nothing older than it.
func TestNewerLife(t *testing.T) {
	said := lifeAt{Events: 4, After: 20, Counting: true}
	done := lifeAt{Events: 4}
	for _, c := range []struct {
		card *lifeCard
		want lifeAt
	}{
		{nil, said},
		{&lifeCard{Life: done, Clock: 9}, said},
		{&lifeCard{Life: done, Clock: 10}, done},
		{&lifeCard{Life: done, Clock: 11}, done},
		{&lifeCard{Life: lifeAt{Events: 3}, Clock: 11}, said},
		{&lifeCard{Life: lifeAt{Events: 5}, Clock: 9}, lifeAt{Events: 5}},
	} {
		if got := (&worker{lived: c.card}).newer(said, 10); got != c.want {
			t.Errorf("card %+v: %+v, want %+v", c.card, got, c.want)
		}
	}
}

package hbm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/probe"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
)

// card is a twin with a number, which may have no memory.
type card struct {
	hbm.Host
	number int
	full   bool
}

func (c *card) Name() string { return fmt.Sprintf("card %d", c.number) }

func (c *card) Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (hbm.Arena, error) {
	if c.full {
		return nil, fmt.Errorf("%s is full", c.Name())
	}
	return c.Host.Open(acc, index, rows, batchRows)
}

// TestCards: tables are dealt among cards evenly, those that end count no more, and a card that has no
// memory leaves them to the others.
func TestCards(t *testing.T) {
	cards := make([]*card, 3)
	all := make([]hbm.Device, len(cards))
	for i := range cards {
		cards[i] = &card{Host: hbm.Host{Node: -1}, number: i}
		all[i] = cards[i]
	}
	several := hbm.NewCards(all, []float64{1, 1, 1})
	cfg := hbm.Config{Device: several, MaxBytes: 300 * 64, BatchRows: 100, Node: -1}
	held := make([]*hbm.Cache, 6)
	on := make([]string, len(held))
	for i := range held {
		held[i] = open(t, cfg)
		on[i] = held[i].Stats().Device.Name
	}
	if want := []string{"card 0", "card 1", "card 2", "card 0", "card 1", "card 2"}; !slices.Equal(on, want) {
		t.Errorf("six tables are on %v, want %v", on, want)
	}
	l := look(t, held[4], keysFrom(0, 10))
	if l.Err != nil || held[4].Apply(l.Rows, make([]float32, 10*spec.Dim)) != 0 {
		t.Errorf("rows on a card: %v", l.Err)
	}
	held[4].Release(l.Rows)
	for range 2 { // it counts once
		if err := held[1].Close(); err != nil {
			t.Error(err)
		}
	}
	if at := open(t, cfg).Stats().Device.Name; at != "card 1" {
		t.Errorf("after a table of card 1 has ended the next is on %s", at)
	}
	cards[0].full = true
	if at := open(t, cfg).Stats().Device.Name; at != "card 1" {
		t.Errorf("with card 0 full the next is on %s", at)
	}
	cards[1].full, cards[2].full = true, true
	below, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = hbm.New(below, cfg)
	if !errors.Is(err, hbm.ErrDevice) {
		t.Fatalf("with all cards full: %v", err)
	}
	for _, c := range cards {
		if !strings.Contains(err.Error(), c.Name()+" is full") {
			t.Errorf("with all cards full it says nothing of %s: %v", c.Name(), err)
		}
	}
	if err := below.Close(); err != nil {
		t.Error(err)
	}
}

// TestCardsName: unlike cards are named, like ones counted.
func TestCardsName(t *testing.T) {
	for want, all := range map[string][]hbm.Device{
		"card 1 and card 2":                    {&card{number: 1}, &card{number: 2}},
		"card 5 and 3 of " + hbm.Host{}.Name(): {&card{number: 5}, hbm.Host{}, hbm.Host{}, hbm.Host{}},
	} {
		if got := hbm.NewCards(all, nil).Name(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

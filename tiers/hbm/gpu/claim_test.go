package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// machine is a host whose cards are on some buses.
func machine(t *testing.T, buses ...string) string {
	root := t.TempDir()
	for _, bus := range buses {
		dir := filepath.Join(root, bus)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, seat := range seats {
			if err := os.WriteFile(filepath.Join(dir, seat), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// TestClaims: servers that know nothing of each other share a host's cards evenly,
// and a card is free again when its server has ended.
func TestClaims(t *testing.T) {
	buses := []string{"0000:0A:00.0", "0000:17:00.0", "0001:b2:00.0"}
	root := machine(t, "0000:0a:00.0", "0000:17:00.0", "0001:b2:00.0")
	like := []float64{1, 1, 1}
	var got []int
	var ends []func()
	for range 3 * len(seats) {
		card, end, err := claim(root, buses, like)
		if err != nil {
			t.Fatal(err)
		}
		got, ends = append(got, card), append(ends, end)
	}
	for i, card := range got {
		if card != i%3 {
			t.Fatalf("cards are taken as %v, want in turns", got)
		}
	}
	if card, end, err := claim(root, buses, like); err != nil || card != 0 {
		t.Errorf("one more than is counted gets card %d, %v", card, err)
	} else {
		end()
	}
	ends[4]()
	card, end, err := claim(root, buses, like)
	if err != nil || card != 1 {
		t.Errorf("after card 1 is left, %d is taken, %v", card, err)
	}
	for _, end := range append(ends, end) {
		end() // again for one: nothing happens
	}
	if card, end, err = claim(root, buses, []float64{1, 5, 2}); err != nil || card != 1 {
		t.Errorf("of unlike cards %d is taken, %v", card, err)
	}
	end()
	if _, _, err := claim(root, []string{"0000:99:00.0"}, like[:1]); err == nil {
		t.Error("a card that the machine does not show was taken")
	}
}

// TestLeast: dealing one by one gives the slowest share that any dealing gives.
func TestLeast(t *testing.T) {
	r := seedtest.Rand(t)
	for range 300 {
		cards := make([]load, 1+r.IntN(4))
		for i := range cards {
			cards[i].speed = float64(1 + r.IntN(9))
		}
		servers := 1 + r.IntN(6)
		for range servers {
			cards[least(cards)].takers++
		}
		if got, want := slowest(cards), best(cards, servers); got != want {
			t.Fatalf("%d servers on %v: the slowest has %v, it could have %v", servers, cards, got, want)
		}
	}
}

// slowest is the least that one of those who have a card gets of it.
func slowest(cards []load) float64 {
	var shares []float64
	for _, c := range cards {
		if c.takers > 0 {
			shares = append(shares, c.speed/float64(c.takers))
		}
	}
	return slices.Min(shares)
}

// best tries all dealings.
func best(cards []load, servers int) (most float64) {
	ways := 1
	for range servers {
		ways *= len(cards)
	}
	for way := range ways {
		try := slices.Clone(cards)
		for i := range try {
			try[i].takers = 0
		}
		for range servers {
			try[way%len(cards)].takers++
			way /= len(cards)
		}
		most = max(most, slowest(try))
	}
	return most
}

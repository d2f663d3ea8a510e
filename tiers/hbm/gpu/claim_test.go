package gpu

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
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

// TestClaimsAtOnce: servers that begin at the same moment share the cards evenly, too.
func TestClaimsAtOnce(t *testing.T) {
	buses := []string{"0000:0a:00.0", "0000:17:00.0", "0001:b2:00.0"}
	root := machine(t, buses...)
	for round := range 20 {
		var all sync.WaitGroup
		var taken [3]atomic.Int32
		ends := make(chan func(), 4*len(taken))
		for range cap(ends) {
			all.Go(func() {
				card, end, err := claim(root, buses, []float64{1, 1, 1})
				if err != nil {
					t.Error(err)
					return
				}
				taken[card].Add(1)
				ends <- end
			})
		}
		all.Wait()
		for close(ends); len(ends) > 0; {
			(<-ends)()
		}
		for card := range taken {
			if n := taken[card].Load(); n != 4 {
				t.Fatalf("round %d: %d servers of 12 have card %d, want 4", round, n, card)
			}
		}
	}
}

package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDeal(t *testing.T) {
	one, two := []string{"0000:17:00.0"}, []string{"0000:17:00.0", "0000:98:00.0"}
	on := func(machine string, version int, cards []string) offer {
		return offer{Machine: machine, Version: version, Cards: cards}
	}
	for name, c := range map[string]struct {
		offers []offer
		want   []int
		why    string
	}{
		"one host":              {[]offer{on("a", 22703, two), on("a", 22703, two)}, []int{0, 1}, ""},
		"two hosts in turns":    {[]offer{on("a", 22703, two), on("b", 22703, one), on("a", 22703, two)}, []int{0, 0, 1}, ""},
		"a card of its own":     {[]offer{on("a", 22703, two[:1]), on("a", 22703, two[1:])}, []int{0, 0}, ""},
		"machines not known":    {[]offer{on("", 22703, one), on("", 22703, one)}, []int{0, 0}, ""},
		"too few":               {[]offer{on("a", 22703, two), on("a", 22703, two), on("a", 22703, two)}, nil, "rank 2: the last of its 2 cards is rank 1's, and NCCL refuses two ranks on one"},
		"none":                  {[]offer{on("a", 22703, two), on("b", 22703, nil)}, nil, "rank 1: it sees no card"},
		"versions":              {[]offer{on("a", 22703, two), on("b", 21805, two)}, nil, "rank 1: its NCCL is 2.18.5 and rank 0's 2.27.3"},
		"a rank that has none":  {[]offer{on("a", 22703, two), {Why: "no driver"}}, nil, "rank 1: no driver"},
		"nobody needs anything": {nil, []int{}, ""},
	} {
		got, err := deal(c.offers)
		if !slices.Equal(got, c.want) || (err == nil) != (c.why == "") || err != nil && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, %v; want %v, %q", name, got, err, c.want, c.why)
		}
	}
}

func TestWord(t *testing.T) {
	w := word{kind: 2, typ: 9, op: 3, absent: true, anyOrder: true, refused: true, block: 1 << 40, root: 7, at: 1 << 50}
	b := make([]byte, wordBytes)
	w.encode(b)
	var back word
	if back.decode(b); back != w {
		t.Errorf("%+v becomes %+v", w, back)
	}
}

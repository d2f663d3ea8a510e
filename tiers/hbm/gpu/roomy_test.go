package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestRoomy: cards are tried as they would be taken, until one has room; what is not
// kept is given back, and each is tried once.
func TestRoomy(t *testing.T) {
	const broken = -1
	for name, c := range map[string]struct {
		free   []int64
		speeds []float64
		want   int
		asked  []int
	}{
		"the first":              {[]int64{10, 10, 10}, []float64{1, 1, 1}, 0, []int{0}},
		"the fastest":            {[]int64{10, 10, 10}, []float64{1, 3, 2}, 1, []int{1}},
		"the first is full":      {[]int64{9, 0, 10}, []float64{1, 1, 1}, 2, []int{0, 1, 2}},
		"the first is broken":    {[]int64{broken, 10, 10}, []float64{1, 1, 1}, 1, []int{0, 1}},
		"none has room":          {[]int64{3, 9, 5}, []float64{1, 1, 1}, 1, []int{0, 1, 2}},
		"without a speed":        {[]int64{3, 99}, []float64{1, 0}, 0, []int{0}},
		"all of them are broken": {[]int64{broken, broken}, []float64{1, 1}, broken, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []int
			had := make([]int, len(c.free))
			take := func(speeds []float64) (int, func()) {
				i := slices.Index(speeds, slices.Max(speeds))
				had[i]++
				return i, func() { had[i]-- }
			}
			card, release, err := roomy(c.speeds, 10, take, func(i int) (int64, error) {
				asked = append(asked, i)
				if c.free[i] == broken {
					return 0, errors.New("this card is broken")
				}
				return c.free[i], nil
			})
			switch {
			case c.want == broken && (err == nil || strings.Count(err.Error(), "broken") != len(c.free)):
				t.Errorf("card %d, %v", card, err)
			case c.want != broken && (err != nil || card != c.want || had[card] != 1):
				t.Errorf("card %d, taken %v, %v; want card %d", card, had, err, c.want)
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("cards %v are asked, want %v", asked, c.asked)
			}
			if err == nil {
				release()
			}
			if slices.Max(had) != 0 || slices.Min(had) != 0 {
				t.Errorf("cards are had %v times in the end", had)
			}
		})
	}
}

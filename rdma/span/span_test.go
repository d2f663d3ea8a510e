package span

import (
	"math"
	"testing"

	"psrt/csrc/seedtest"
)

type plain struct {
	start, size uint64
	value       int
}

// TestAgainstList plays random sets against a plain list.
func TestAgainstList(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		s, list := &Set[int]{}, []plain(nil)
		for step := range 60 {
			if len(list) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(list))
				s = s.Without(list[i].value)
				list = append(list[:i:i], list[i+1:]...)
			} else {
				p := plain{r.Uint64N(1000), r.Uint64N(200), step}
				s = s.With(p.start, p.size, p.value)
				list = append(list, p)
			}
			for range 20 {
				start, n := r.Uint64N(1300), r.Uint64N(60)
				var best *plain
				for i := range list {
					p := &list[i]
					if p.start <= start && start+n <= p.start+p.size && (best == nil || p.start >= best.start) {
						best = p
					}
				}
				got, ok := s.Find(start, n)
				if ok != (best != nil) || ok && start+n > 0 && !contains(list, got, start, n) {
					t.Fatalf("Find(%d, %d) is %d, %t among %v", start, n, got, ok, list)
				}
			}
		}
		count := 0
		for range s.All() {
			count++
		}
		if count != len(list) {
			t.Fatalf("All yields %d of %d", count, len(list))
		}
	}
}

func contains(list []plain, value int, start, n uint64) bool {
	for _, p := range list {
		if p.value == value {
			return p.start <= start && start+n <= p.start+p.size
		}
	}
	return false
}

func TestWrap(t *testing.T) {
	s := (&Set[int]{}).With(math.MaxUint64-10, 100, 1)
	if _, ok := s.Find(math.MaxUint64-5, 100); ok {
		t.Error("a lookup beyond the end of the address space is found")
	}
	if _, ok := s.Find(math.MaxUint64-5, 5); !ok {
		t.Error("the last bytes are not found")
	}
}

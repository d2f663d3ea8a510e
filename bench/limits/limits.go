package limits

import "fmt"

// Limit is a number, and what it may be.
type Limit struct {
	Value       int
	What        string // it counts, as "rounds"
	Least, Most int
}

// Check refuses the first that is beyond its limits.
func Check(suite string, all ...Limit) error {
	for _, l := range all {
		if l.Value < l.Least || l.Value > l.Most {
			return fmt.Errorf("%s: %d %s, want %d to %d", suite, l.Value, l.What, l.Least, l.Most)
		}
	}
	return nil
}

// Each is the limits of a list whose entries have the same; an empty one is refused.
func Each(values []int, what string, least, most int) []Limit {
	all := []Limit{{len(values), "entries in the list of " + what, 1, 1 << 10}}
	for _, v := range values {
		all = append(all, Limit{v, what, least, most})
	}
	return all
}

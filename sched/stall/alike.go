package stall

import "slices"

// alike makes one wait of several that are told at the same moment and have one cause: of
// many (groups, lanes) for the same thing, and of one for many connections. The words are
// those of the first, which is the oldest; so it is with what is behind them. A server that
// dies, of whose groups each would have a line of its own, is told in a few. depth is how far
// behind they are: what peers say is looked at no deeper than it is shown.
func alike(all []Wait, depth int) []Wait {
	if depth > maxDepth {
		return nil
	}
	type key struct {
		kind          Kind
		who, on, what string
	}
	type kin struct {
		Wait
		whos, ons []string
	}
	var order []*kin
	known := map[key]*kin{}
	for _, w := range all {
		k := key{kind: w.Kind, on: w.On}
		switch {
		case w.On == "":
			k.who, k.what = w.Who, w.What
		case w.Kind == Disk: // its own, nobody else's
			k.who = w.Who
		case w.Kind == Connection: // each to another
			k.who, k.on = w.Who, ""
		}
		first := known[k]
		if first == nil {
			first = &kin{Wait: w}
			first.Because = nil
			order = append(order, first)
			known[k] = first
		}
		if !slices.Contains(first.whos, w.Who) {
			first.whos = append(first.whos, w.Who)
		}
		if w.On != "" && !slices.Contains(first.ons, w.On) {
			first.ons = append(first.ons, w.On)
		}
		first.Because = append(first.Because, w.Because...)
	}
	told := make([]Wait, len(order))
	for i, k := range order {
		k.Who, k.On, k.many = List(k.whos), List(k.ons), len(k.whos) > 1
		k.Because = alike(k.Because, depth+1)
		told[i] = k.Wait
	}
	return told
}

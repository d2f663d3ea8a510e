package gen

// census counts every code of the training part. Its memory, four bytes an id
// of the vocabulary, is the only part of the generator that grows.
type census struct {
	counts [][]uint32
	rare   []effect // for each field the mean effect of codes seen less than Seen times
}

func newCensus(m *model) *census {
	c := &census{counts: make([][]uint32, len(m.fields))}
	for f := range c.counts {
		c.counts[f] = make([]uint32, m.fields[f].size+1)
	}
	return c
}

func (c *census) add(codes []uint32) {
	for i, code := range codes {
		if n := &c.counts[i%len(c.counts)][code]; *n < 1<<32-1 {
			*n++
		}
	}
}

// settle works out what a trainer can at best assume of a rare id: the mean.
func (c *census) settle(m *model) {
	c.rare = make([]effect, len(c.counts))
	for f, counts := range c.counts {
		var e effect
		var n int64
		for code, k := range counts {
			if k == 0 || k >= Seen {
				continue
			}
			x := m.effect(f, uint32(code))
			n += int64(k)
			e.w += x.w * int64(k)
			for i := range e.v {
				e.v[i] += x.v[i] * int64(k)
			}
		}
		if n > 0 {
			e.w /= n
			for i := range e.v {
				e.v[i] /= n
			}
		}
		c.rare[f] = e
	}
}

// reachable is the planted logit with rare codes replaced by their field's mean.
func (c *census) reachable(m *model, r *row) float64 {
	var total sum
	for f, code := range r.codes {
		if c.counts[f][code] < Seen {
			total.add(c.rare[f])
		} else {
			total.add(m.effect(f, code))
		}
	}
	return m.logit(&total)
}

// ids are the distinct codes seen, those seen often enough, and those seen once.
func (c *census) ids() (all, often, once int64) {
	for _, counts := range c.counts {
		for _, k := range counts {
			if k > 0 {
				all++
			}
			if k >= Seen {
				often++
			}
			if k == 1 {
				once++
			}
		}
	}
	return all, often, once
}

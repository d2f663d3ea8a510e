package gen

// row is one example: a code for every field, and what came of it.
type row struct {
	codes []uint32
	logit float64
	label byte
	rest  stream // for digits that mean nothing to the model
}

// make fills the row with number i.
func (m *model) row(i int64, r *row) {
	s := stream{name: named(m.seed, 3, uint64(i))}
	var total sum
	for f := range m.fields {
		r.codes[f] = m.fields[f].draw(&s)
		total.add(m.effect(f, r.codes[f]))
	}
	r.logit = m.logit(&total)
	r.label = 0
	if s.unit() <= sigmoid(r.logit) {
		r.label = 1
	}
	r.rest = s
}

// partOf chooses the file of a row, independent of what is in it.
func partOf(seed uint64, i int64, parts []part) int {
	var total uint64
	for _, p := range parts {
		total += p.share
	}
	at := named(seed, 4, uint64(i)) % total
	for k, p := range parts {
		if at < p.share {
			return k
		}
		at -= p.share
	}
	return len(parts) - 1
}

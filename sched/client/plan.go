package client

// Plan is what Rows.Plan found, and the tickets of the pull since.
type Plan struct {
	Keys    []uint64 // unique, in lane order
	laneOff []int
	tickets []uint64
}

// Save copies the plan of r into p, reusing p's memory.
func (r *Rows) Save(p *Plan) {
	p.Keys = append(p.Keys[:0], r.Keys()...)
	p.laneOff = append(p.laneOff[:0], r.laneOff...)
	p.tickets = append(p.tickets[:0], r.tickets...)
}

// Restore makes r what it was when Save was called, without values. The plan must
// be of a working set for the same table and client.
func (r *Rows) Restore(p *Plan) error {
	if err := r.reserve(len(p.Keys)); err != nil {
		return err
	}
	r.n = copy(r.keys, p.Keys)
	copy(r.laneOff, p.laneOff)
	if r.hot != nil {
		copy(r.hotFrom, p.laneOff[1:])
	}
	copy(r.tickets, p.tickets)
	return nil
}

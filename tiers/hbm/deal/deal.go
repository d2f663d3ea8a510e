package deal

// Load is a device and how many parts it has already. Speed is in any unit, of all
// devices the same: 0 of one that is taken where there is no other, less than 0 of one
// that is not to be had.
type Load struct {
	Parts int
	Speed float64
}

// Next is the device of which one more part gets the most: unlike devices are shared by
// what they do, like ones evenly; the first of equals.
func Next(devices []Load) int {
	best := 0
	for i, d := range devices {
		if d.share() > devices[best].share() {
			best = i
		}
	}
	return best
}

func (d Load) share() float64 { return d.Speed / float64(d.Parts+1) }

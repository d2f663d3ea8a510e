package gpu

// load is a card and who has it already. speed is in any unit, of all cards the same.
type load struct {
	takers int
	speed  float64
}

// least is the card of which one more gets the most: unlike cards are shared by what
// they do, like ones evenly; the first of equals.
func least(cards []load) int {
	best := 0
	for i, c := range cards {
		if c.share() > cards[best].share() {
			best = i
		}
	}
	return best
}

// turn is the card of a server where nobody knows who has which; some card has a speed.
func turn(server int, speeds []float64) int {
	var usable []int
	for i, speed := range speeds {
		if speed > 0 {
			usable = append(usable, i)
		}
	}
	return usable[server%len(usable)]
}

func (c load) share() float64 { return c.speed / float64(c.takers+1) }

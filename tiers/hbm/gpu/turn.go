package gpu

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

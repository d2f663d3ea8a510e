package hbm

// bed is a place for rows of dim floats: total of them to be gathered and filled, and
// half as many, with an accumulator beside each weight, to be updated. A batch's rows
// are named by numbers below half of total, each once. Every call is over when it
// returns, and gives the seconds that its work took.
type bed interface {
	name() string
	// gather brings the batch's rows together, apart into a matrix of which they are
	// every other row, and find by their keys, into any order of numbers.
	gather() (float64, error)
	apart() (float64, error)
	find() (float64, error)
	// found reads back what find found.
	found() ([]uint32, error)
	// fill puts the batch's rows in place from the host's memory, bring copies as many
	// bytes from there.
	fill() (float64, error)
	bring() (float64, error)
	// update applies AdaGrad to the batch's rows.
	update() (float64, error)
	// copy copies bytes within the memory.
	copy(bytes int) (float64, error)
	// gathered reads the batch back as gather and find left it, or apart, with what
	// lies between its rows.
	gathered(apart bool) ([]float32, error)
	close() error
}

// apartBy is how many rows a row of the wider matrix takes.
const apartBy = 2

// value is the first float of a row as it is filled; the others follow by ones.
func value(id uint32) float32 { return float32(id % 4093) }

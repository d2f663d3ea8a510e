package report

// Collective is what rows of collectives say besides; their Bandwidth is the
// vector's bytes by the time of a call (algbw).
type Collective struct {
	BusGBs        float64 `json:"busbw_gb_s"` // what each rank sends, and receives
	MinMicros     float64 `json:"t_min_us"`
	TypicalMicros float64 `json:"t_typical_us"` // median
	P99Micros     float64 `json:"t_99_us"`
}

var collectiveColumns = []column{
	{"busbw[GB/s]", 3, collectives(func(c *Collective) float64 { return c.BusGBs })},
	{"t_min[us]", 3, collectives(func(c *Collective) float64 { return c.MinMicros })},
	{"t_typical[us]", 3, collectives(func(c *Collective) float64 { return c.TypicalMicros })},
	{"t_99[us]", 3, collectives(func(c *Collective) float64 { return c.P99Micros })},
}

func collectives(f func(*Collective) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.Collective == nil {
			return 0
		}
		return f(r.Collective)
	}
}

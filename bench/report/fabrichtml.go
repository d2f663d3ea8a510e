package report

import (
	"cmp"
	"math"
	"slices"

	"psrt/bench/chart"
)

// pageRows is how many rows of pairs a page has: the worst of them. The JSON
// and the CSV have all.
const pageRows = 200

// heats are the matrices as pictures.
func (r *Report) heats() []chart.Heat {
	var list []chart.Heat
	n := len(r.Fabric.Ranks)
	for _, f := range r.figures() {
		h := chart.Heat{Title: f.name + ", GB/s, from (row) to (column)", LowIsGood: f.latency, Values: make([][]float64, n)}
		if f.latency {
			h.Title = f.name + ", half round trip, us, from (row) to (column)"
		}
		for from := range n {
			h.Values[from] = make([]float64, n)
			for to := range n {
				h.Values[from][to] = math.NaN()
				if row := f.rows[[2]int{from, to}]; row != nil {
					h.Values[from][to] = row.value()
				}
			}
		}
		h.Middle = func(from, to int) float64 {
			if row := f.rows[[2]int{from, to}]; row != nil {
				return row.Limit
			}
			return 0
		}
		h.Marked = func(from, to int) bool {
			row := f.rows[[2]int{from, to}]
			return row != nil && row.Pair.Outlier
		}
		list = append(list, h)
	}
	return list
}

// worstFirst are so many rows, those furthest from the median of their kind.
func (r *Report) worstFirst(most int) []Row {
	rows := slices.Clone(r.Rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		if a.Pair == nil || b.Pair == nil {
			return 0
		}
		return cmp.Compare(b.Pair.Times, a.Pair.Times)
	})
	return rows[:min(len(rows), most)]
}

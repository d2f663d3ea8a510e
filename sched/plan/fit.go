package plan

import (
	"errors"
	"math"
)

// Sample is what a run of one worker and one server took, by all their cores.
type Sample struct {
	Model    Model
	Examples float64
	Steps    float64
	Rows     float64 // pulled, over all steps
	Dense    float64 // dense ranks; they make as many steps, and are served
	// WorkerNs and ServerNs are core-nanoseconds; dense ranks' are the worker's.
	WorkerNs, ServerNs float64
}

// Fit finds the costs that explain samples best: none below zero, each sample's error
// counted as a share of it (least squares, by coordinates). It gives the costs that
// samples of shm can show; the others are as they were.
func Fit(samples []Sample, known Costs) (Costs, error) {
	if len(samples) < 6 {
		return known, errors.New("plan: at least 6 samples are needed")
	}
	var worker, server [][]float64
	var workerNs, serverNs []float64
	for _, s := range samples {
		floats := s.Model.RowFloats()
		ids := s.Examples * float64(s.Model.Fields)
		params, multiplyAdds := s.Model.dense()
		between := 0. // both ways
		if s.Dense > 0 {
			between = 2 * s.Examples * s.Model.between()
		}
		steps := s.Steps * (1 + s.Dense)
		worker = append(worker, []float64{ids, ids * floats, s.Examples * multiplyAdds, s.Rows, s.Rows * floats, steps, between})
		server = append(server, []float64{s.Rows, s.Rows*floats + s.Steps*params*max(1, s.Dense), steps})
		workerNs, serverNs = append(workerNs, s.WorkerNs), append(serverNs, s.ServerNs)
	}
	w, v := leastSquares(worker, workerNs), leastSquares(server, serverNs)
	c := known
	for j, cost := range []*float64{&c.ReadID, &c.ComputeFloat, &c.MultiplyAdd, &c.WorkerRow, &c.WorkerFloat, &c.WorkerStep, &c.BetweenFloat} {
		found(cost, worker, j, w)
	}
	for j, cost := range []*float64{&c.ServerRow, &c.ServerFloat, &c.ServerStep} {
		found(cost, server, j, v)
	}
	return c, c.validate()
}

// found sets a cost to what was found, where some sample had any of it.
func found(cost *float64, samples [][]float64, j int, x []float64) {
	for _, s := range samples {
		if s[j] != 0 {
			*cost = x[j]
			return
		}
	}
}

// leastSquares minimises the sum of (a x / b - 1)^2 for x >= 0.
func leastSquares(a [][]float64, b []float64) []float64 {
	n := len(a[0])
	scale := make([]float64, n)
	rows := make([][]float64, len(a))
	for i, r := range a {
		rows[i] = make([]float64, n)
		for j, v := range r {
			rows[i][j] = v / b[i]
			scale[j] = math.Max(scale[j], math.Abs(rows[i][j]))
		}
	}
	for _, r := range rows {
		for j := range r {
			if scale[j] > 0 {
				r[j] /= scale[j]
			}
		}
	}
	x := make([]float64, n)
	left := make([]float64, len(a)) // what is not explained yet
	for i := range left {
		left[i] = 1
	}
	for range 200_000 {
		moved := 0.0
		for j := range n {
			dot, norm := 0.0, 0.0
			for i, r := range rows {
				dot += r[j] * left[i]
				norm += r[j] * r[j]
			}
			if norm == 0 {
				continue
			}
			step := math.Max(dot/norm, -x[j])
			x[j] += step
			for i, r := range rows {
				left[i] -= step * r[j]
			}
			moved = math.Max(moved, math.Abs(step))
		}
		if moved < 1e-10 {
			break
		}
	}
	for j := range x {
		if scale[j] > 0 {
			x[j] /= scale[j]
		}
	}
	return x
}

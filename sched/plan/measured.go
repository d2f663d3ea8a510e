package plan

// Measured are the costs of one core of the machine that psrt is built on (an AMD EPYC
// with AVX-512, two cores, 2026-11-22; `psrt plan --measure`), but for SocketByte and
// DiskRow, which are of docs/performance.md, and BetweenFloat, which is of a later one (an
// Intel Xeon with AVX-512, 2026-11-23). Other machines measure their own. What a
// row and its floats cost a worker is not to be told from what ids do there.
func Measured() Costs {
	return Costs{ReadID: 122, ComputeFloat: 1.27, MultiplyAdd: 0.071, BetweenFloat: 1.5, WorkerStep: 227_000,
		ServerRow: 55, ServerFloat: 2.3, ServerStep: 118_000, SocketByte: 0.5, DiskRow: 7_000}
}

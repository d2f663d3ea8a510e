package plan

// Measured are the costs of one core of the machine that psrt is built on (2 cores of a
// Xeon with AVX-512 at 2.x GHz, 2026-11; `psrt plan --measure`). Other machines measure
// their own.
func Measured() Costs {
	return Costs{ReadID: 100, ComputeFloat: 2, MultiplyAdd: 0.3, WorkerRow: 60, WorkerFloat: 2, WorkerStep: 100_000,
		ServerRow: 120, ServerFloat: 2, ServerStep: 20_000, SocketByte: 0.5, DiskRow: 7_000}
}

package report

// FanIn is what a row says of many workers that send to one server. Times are
// in microseconds, of small pulls beside the pushes.
type FanIn struct {
	Workers int    `json:"workers"`
	Mode    string `json:"mode"` // granted or blast
	// Share is the goodput divided by that of the least number of workers in
	// the same mode.
	Share float64 `json:"goodput_share"`
	// Jain is the fairness over workers: (sum x)^2 / (n sum x^2).
	Jain    float64 `json:"jain"`
	IdleP99 float64 `json:"pull_idle_p99_us"` // with nobody pushing
	PullP50 float64 `json:"pull_p50_us"`
	PullP99 float64 `json:"pull_p99_us"`
	Bound   float64 `json:"pull_p99_bound_us"` // idle p99 + (k+1) chunks; 0: nothing is granted
	Chunks  int     `json:"chunks"`            // k
	Chunk   int     `json:"chunk_bytes"`
	Resent  uint64  `json:"tcp_segments_resent"`
	RNR     uint64  `json:"receiver_not_ready"` // from RDMA devices' counters
	Dropped uint64  `json:"packets_dropped"`    // by the switch of a link of psbench's own
	Bytes   []int64 `json:"bytes_per_worker,omitempty"`
}

var fanInColumns = []column{
	{"of first", 3, fanIns(func(f *FanIn) float64 { return f.Share })},
	{"Jain", 4, fanIns(func(f *FanIn) float64 { return f.Jain })},
	{"idle p99[us]", 0, fanIns(func(f *FanIn) float64 { return f.IdleP99 })},
	{"pull p50[us]", 0, fanIns(func(f *FanIn) float64 { return f.PullP50 })},
	{"pull p99[us]", 0, fanIns(func(f *FanIn) float64 { return f.PullP99 })},
	{"bound[us]", 0, fanIns(func(f *FanIn) float64 { return f.Bound })},
	{"k", 0, fanIns(func(f *FanIn) float64 { return float64(f.Chunks) })},
	{"chunk", 0, fanIns(func(f *FanIn) float64 { return float64(f.Chunk) })},
	{"resent", 0, fanIns(func(f *FanIn) float64 { return float64(f.Resent) })},
	{"dropped", 0, fanIns(func(f *FanIn) float64 { return float64(f.Dropped) })},
	{"RNR", 0, fanIns(func(f *FanIn) float64 { return float64(f.RNR) })},
}

func fanIns(f func(*FanIn) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.FanIn == nil {
			return 0
		}
		return f(r.FanIn)
	}
}

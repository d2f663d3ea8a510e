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
	// Meter is what counts at the server, SeenBytes its counts by worker and
	// PushedBytes the workers' own over the same time, all rounds together.
	// MeterOff is by how many percent all of the one exceed all of the other;
	// MeterSpread is how far a single worker's excess is from that.
	Meter       string  `json:"meter,omitempty"`
	SeenBytes   []int64 `json:"seen_bytes_per_worker,omitempty"`
	PushedBytes []int64 `json:"pushed_bytes_per_worker,omitempty"`
	MeterOff    float64 `json:"meter_off_percent"`
	MeterSpread float64 `json:"meter_spread_percent"`
	Hot         []int   `json:"hot_workers,omitempty"`
	Stragglers  []int   `json:"stragglers,omitempty"`
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
	{"meter[%]", 2, fanIns(func(f *FanIn) float64 { return f.MeterOff })},
	{"spread[%]", 2, fanIns(func(f *FanIn) float64 { return f.MeterSpread })},
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

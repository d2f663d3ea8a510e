package report

// Fabric is what a report of ranks says besides its rows, which have one figure
// of one ordered pair each.
type Fabric struct {
	Ranks []FabricRank `json:"ranks"`
	Hosts []FabricHost `json:"hosts"`
	Kinds []FabricKind `json:"kinds"`
	// Lost are the ranks that never came or went away, in words.
	Lost []string `json:"lost,omitempty"`
	// Unreachable are the pairs of ranks that were there to the end.
	Unreachable []Unreachable `json:"unreachable,omitempty"`
	// Unsteady are pairs that failed, and worked when they were tried again.
	Unsteady []Unreachable `json:"unsteady,omitempty"`
	// Odd are pairs that have another transport than most of their kind.
	Odd      []Odd        `json:"odd,omitempty"`
	Outliers []Outlier    `json:"outliers,omitempty"`
	Blamed   []Blamed     `json:"blamed,omitempty"`
	Total    *FabricTotal `json:"total,omitempty"`

	// Cut is why not all was measured, "" it was.
	Cut              string  `json:"cut,omitempty"`
	Pairs            int     `json:"pairs"` // ordered
	UnreachablePairs int     `json:"unreachable_pairs"`
	OutlierPairs     int     `json:"outlier_pairs"`
	Waves            int     `json:"waves"`
	Again            int     `json:"measured_again"`
	Seconds          float64 `json:"seconds"`
}

// FabricRank is one rank. Host is an index.
type FabricRank struct {
	Rank   int    `json:"rank"`
	Host   int    `json:"host"`
	PID    int    `json:"pid"`
	Listen string `json:"listen"`
	Lost   string `json:"lost,omitempty"`
}

// FabricHost is one host as its first rank sees it.
type FabricHost struct {
	Name      string   `json:"name"`
	Ranks     []int    `json:"ranks"`
	CPUs      int      `json:"cpus"`
	Kernel    string   `json:"kernel"`
	Interface string   `json:"interface,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	Devices   []string `json:"devices,omitempty"`
	// Chosen are the transports of its pairs and why, each once.
	Chosen   []string `json:"chosen,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// FabricKind is what figures of one kind of pair have in common.
type FabricKind struct {
	Figure    string  `json:"figure"`
	Bytes     int     `json:"bytes"`
	Latency   bool    `json:"latency"` // in microseconds; else GB/s
	SameHost  bool    `json:"same_host"`
	Count     int     `json:"count"`
	Median    float64 `json:"median"`
	MAD       float64 `json:"mad"`
	Best      float64 `json:"best"`
	Worst     float64 `json:"worst"`
	Threshold float64 `json:"threshold"`
	// Divided: the median itself is far from the best.
	Divided bool `json:"divided,omitempty"`
}

// Unreachable is one rank that could not reach another, and why.
type Unreachable struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Error  string `json:"error"`
	Remedy string `json:"remedy"`
}

// Odd is a pair with another transport than its like, and why.
type Odd struct {
	From      int    `json:"from"`
	To        int    `json:"to"`
	Transport string `json:"transport"`
	Usual     string `json:"usual"`
	Reason    string `json:"reason"`
}

// Outlier is a slow figure.
type Outlier struct {
	Figure string  `json:"figure"`
	From   int     `json:"from"`
	To     int     `json:"to"`
	Value  float64 `json:"value"`
	Median float64 `json:"median"`
	Times  float64 `json:"times"` // worse than the median
	Unit   string  `json:"unit"`
}

// Blamed is a rank or host most of whose figures are outliers.
type Blamed struct {
	Figure string `json:"figure"`
	What   string `json:"what"` // "rank 3 (node7)", "host node7"
	Way    string `json:"way"`  // "from it", "to it", "both ways"
}

// FabricTotal is all pairs at once.
type FabricTotal struct {
	Ranks   int      `json:"ranks"`
	Bytes   int      `json:"bytes"` // of a write
	GBs     float64  `json:"gb_s"`
	Least   float64  `json:"rank_least_gb_s"`
	Most    float64  `json:"rank_most_gb_s"`
	Worst   int      `json:"rank_least"`
	Failed  []string `json:"failed,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Pair is what a row of one ordered pair says.
type Pair struct {
	From      int     `json:"from"`
	To        int     `json:"to"`
	FromHost  string  `json:"from_host"`
	ToHost    string  `json:"to_host"`
	SameHost  bool    `json:"same_host"`
	Transport string  `json:"transport"`
	Device    string  `json:"device,omitempty"`
	NUMANode  int     `json:"numa_node"`
	Times     float64 `json:"times"` // worse than the median of its kind
	Outlier   bool    `json:"outlier"`
}

var pairColumns = []column{
	{"from", 0, pairs(func(p *Pair) float64 { return float64(p.From) })},
	{"to", 0, pairs(func(p *Pair) float64 { return float64(p.To) })},
	{"times", 2, pairs(func(p *Pair) float64 { return p.Times })},
	{"outlier", 0, pairs(func(p *Pair) float64 {
		if p.Outlier {
			return 1
		}
		return 0
	})},
}

func pairs(f func(*Pair) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.Pair == nil {
			return 0
		}
		return f(r.Pair)
	}
}

// figure is a square of ranks: the rows of one thing measured.
type figure struct {
	name    string
	latency bool
	bytes   int
	rows    map[[2]int]*Row
}

func (r *Report) figures() []figure {
	var list []figure
	for _, k := range r.Fabric.Kinds {
		if len(list) > 0 && list[len(list)-1].name == k.Figure {
			continue
		}
		list = append(list, figure{name: k.Figure, latency: k.Latency, bytes: k.Bytes, rows: map[[2]int]*Row{}})
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, f := range list {
			if row.Pair != nil && f.latency == (row.Latency != nil) && (f.latency || f.bytes == row.Bytes) {
				f.rows[[2]int{row.Pair.From, row.Pair.To}] = row
			}
		}
	}
	return list
}

// value of a row in its figure's unit.
func (r *Row) value() float64 {
	if r.Latency != nil {
		return r.Latency.Typical
	}
	if r.Bandwidth != nil {
		return r.Bandwidth.Avg
	}
	return 0
}

package qualify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Finding is what a run found.
type Finding struct {
	Absent string // who never came, and why; "" nobody
	Cut    string // why not all was measured, "" it was
	Took   time.Duration
	Waves  int
	Again  int // pairs that were measured again
	Total  *Total

	plan    *Plan
	members []*member // by rank; nil: never came
	lost    []string  // by rank, once closed
	hostOf  []int     // by rank
	hosts   []hostOf

	mu       sync.Mutex
	cells    []cell // from*ranks + to
	verdicts []verdict
}

// hostOf is one host.
type hostOf struct {
	name, key string
	ranks     []int
}

// cell is what became of one rank's way to another.
type cell struct {
	out  *Outcome
	err  string
	lost int // the rank that was lost before or while, or -1
	// first is why it failed before it worked.
	first string
}

// verdict is about one figure.
type verdict struct {
	name    string // of the figure
	bytes   int    // 0: latency
	samples []Sample
	Verdict
}

// Total is all pairs at once.
type Total struct {
	Slot        int // bytes of a write
	Ranks       int
	Bytes       int64
	Took        time.Duration
	Least, Most float64 // GB/s that a rank wrote
	Worst       int     // the rank with the least

	mu     sync.Mutex
	Failed []string
}

func (t *Total) fail(text string) {
	t.mu.Lock()
	t.Failed = append(t.Failed, text)
	t.mu.Unlock()
}

func (t *Total) add(rank int, w crowdWrote) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gbs := float64(w.Bytes) / w.Took.Seconds() / 1e9
	if t.Ranks == 0 || gbs < t.Least {
		t.Least, t.Worst = gbs, rank
	}
	t.Ranks++
	t.Most = max(t.Most, gbs)
	t.Bytes += w.Bytes
	t.Took = max(t.Took, w.Took)
}

// GBs is what all wrote together.
func (t *Total) GBs() float64 {
	if t.Took == 0 {
		return 0
	}
	return float64(t.Bytes) / t.Took.Seconds() / 1e9
}

func newFinding(plan *Plan, members []*member) *Finding {
	f := &Finding{plan: plan, members: members, hostOf: make([]int, len(members)), cells: make([]cell, len(members)*len(members))}
	for i := range f.cells {
		f.cells[i].lost = -1
	}
	for r, m := range members {
		name, key := "never came", ""
		if m != nil {
			name, key = m.Facts.Host, m.Facts.Host+" "+m.Facts.Key
		}
		h := slices.IndexFunc(f.hosts, func(h hostOf) bool { return h.key == key })
		if h < 0 {
			h = len(f.hosts)
			same := 1 // hosts of one name, as containers may be
			for _, o := range f.hosts {
				if o.name == name || o.name == fmt.Sprintf("%s#%d", name, same) {
					same++
				}
			}
			if same > 1 {
				name = fmt.Sprintf("%s#%d", name, same)
			}
			f.hosts = append(f.hosts, hostOf{name: name, key: key})
		}
		f.hostOf[r] = h
		f.hosts[h].ranks = append(f.hosts[h].ranks, r)
	}
	return f
}

// here counts the ranks that came and are not lost.
func (f *Finding) here() int {
	n := 0
	for _, m := range f.members {
		if m != nil && m.lost() == "" {
			n++
		}
	}
	return n
}

// limits are what each host can carry at a time.
func (f *Finding) limits(links int) []Host {
	list := make([]Host, len(f.hosts))
	for h := range list {
		list[h] = Host{Ranks: 2, Links: max(links, 1)}
		if m := f.members[f.hosts[h].ranks[0]]; m != nil {
			list[h].Ranks = max(2, m.Facts.CPUs)
			if links == 0 {
				list[h].Links = max(1, len(m.Facts.Devices))
			}
		}
	}
	return list
}

// take notes what one rank's way to another gave; the better of two counts.
func (f *Finding) take(from, to int, out *Outcome, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.cells[from*len(f.members)+to]
	if err != nil {
		var lost *lostError
		if errors.As(err, &lost) {
			c.lost = lost.rank
		}
		c.err = err.Error()
		return
	}
	if c.err != "" {
		c.first, c.err = c.err, ""
	}
	if c.out == nil {
		c.out = out
		return
	}
	if out.Latency.Typical < c.out.Latency.Typical {
		c.out.Latency, c.out.Checksum = out.Latency, out.Checksum
	}
	for i := range out.Writes {
		if out.Writes[i].GBs() > c.out.Writes[i].GBs() {
			c.out.Writes[i] = out.Writes[i]
		}
	}
}

func (f *Finding) cell(from, to int) *cell { return &f.cells[from*len(f.members)+to] }

// reached: the way was measured, and it worked.
func (f *Finding) reached(from, to int) bool {
	c := f.cell(from, to)
	return c.out != nil && c.err == ""
}

// judge looks for outliers among all figures.
func (f *Finding) judge() {
	latency, bandwidth := f.plan.rules()
	f.verdicts = []verdict{f.verdict(fmt.Sprintf("latency of %s", short(latencyBytes)), 0, latency, func(o *Outcome) float64 { return o.Latency.Typical })}
	for i, n := range f.plan.Sizes {
		f.verdicts = append(f.verdicts, f.verdict("write of "+short(n), n, bandwidth, func(o *Outcome) float64 { return o.Writes[i].GBs() }))
	}
}

func (f *Finding) verdict(name string, bytes int, rule Rule, value func(*Outcome) float64) verdict {
	v := verdict{name: name, bytes: bytes}
	for from := range f.members {
		for to := range f.members {
			if from != to && f.reached(from, to) {
				v.samples = append(v.samples, Sample{from, to, f.hostOf[from], f.hostOf[to], value(f.cell(from, to).out)})
			}
		}
	}
	v.Verdict = Judge(v.samples, rule)
	return v
}

// spreadOf is that of the sample's kind.
func (v *verdict) spreadOf(s Sample) Spread {
	for _, sp := range v.Spreads {
		if sp.SameHost == (s.FromHost == s.ToHost) {
			return sp
		}
	}
	return Spread{}
}

// times is how many times worse than the median of its kind a sample is.
func (v *verdict) times(s Sample) float64 {
	m := v.spreadOf(s).Median
	if v.bytes == 0 {
		return s.Value / max(m, 1e-6)
	}
	return m / max(s.Value, 1e-9)
}

// suspects are the pairs of outliers, worst first, at most so many.
func (f *Finding) suspects(most int) []Pair {
	worst := map[Pair]float64{}
	for i := range f.verdicts {
		v := &f.verdicts[i]
		for _, s := range v.Slow {
			p := Pair{min(v.samples[s].From, v.samples[s].To), max(v.samples[s].From, v.samples[s].To)}
			worst[p] = max(worst[p], v.times(v.samples[s]))
		}
	}
	var list []Pair
	for p := range worst {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(worst[b], worst[a]), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return list[:min(len(list), most)]
}

// failures are the pairs of ranks that are there of which a way failed; nil if
// there are more than most: then it is no matter of chance.
func (f *Finding) failures(most int) []Pair {
	var list []Pair
	for a := range f.members {
		for b := a + 1; b < len(f.members); b++ {
			if f.cell(a, b).err == "" && f.cell(b, a).err == "" || !f.there(a) || !f.there(b) {
				continue
			}
			if len(list) == most {
				return nil
			}
			list = append(list, Pair{a, b})
		}
	}
	return list
}

func (f *Finding) there(r int) bool { return f.members[r] != nil && f.members[r].lost() == "" }

// close settles who was lost, and why.
func (f *Finding) close() {
	f.lost = make([]string, len(f.members))
	for r, m := range f.members {
		if m != nil {
			f.lost[r] = m.lost()
		}
	}
}

// Unreachable counts the ordered pairs that could not be measured, those of
// ranks that never came included.
func (f *Finding) Unreachable() int {
	n := 0
	for from := range f.members {
		for to := range f.members {
			if from != to && !f.reached(from, to) {
				n++
			}
		}
	}
	return n
}

// odd is a pair that goes another way than most of its kind: what most have
// did not work there.
type odd struct {
	from, to         int
	out              *Outcome
	transport, usual string
}

// odds are the pairs whose transport is not that of most pairs of their kind.
func (f *Finding) odds() []odd {
	var list []odd
	for _, same := range []bool{true, false} {
		var kind []odd
		count := map[string]int{}
		for from := range f.members {
			for to := range f.members {
				if from != to && f.reached(from, to) && (f.hostOf[from] == f.hostOf[to]) == same {
					out := f.cell(from, to).out
					kind = append(kind, odd{from: from, to: to, out: out, transport: out.Transport})
					count[out.Transport]++
				}
			}
		}
		for usual, n := range count {
			if 2*n <= len(kind) {
				continue
			}
			for _, o := range kind {
				if o.usual = usual; o.transport != usual {
					list = append(list, o)
				}
			}
		}
	}
	return list
}

// Outliers counts the ordered pairs with a slow figure, with another transport
// than their like, or that failed at first.
func (f *Finding) Outliers() int {
	slow := map[[2]int]bool{}
	for _, o := range f.odds() {
		slow[[2]int{o.from, o.to}] = true
	}
	for i, c := range f.cells {
		if c.first != "" && c.err == "" {
			slow[[2]int{i / len(f.members), i % len(f.members)}] = true
		}
	}
	for _, v := range f.verdicts {
		for _, i := range v.Slow {
			slow[[2]int{v.samples[i].From, v.samples[i].To}] = true
		}
	}
	return len(slow)
}

// short writes sizes as people do: 4 KiB is 4096.
func short(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

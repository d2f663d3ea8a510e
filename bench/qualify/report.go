package qualify

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"psrt/bench/report"
)

// Report is the finding in the form that all suites have. transport is what was
// asked for.
func (f *Finding) Report(transport string) *report.Report {
	n := len(f.members)
	r := &report.Report{
		Version: report.Version, Suite: "qualify", Transport: transport, Time: time.Now(), Seed: f.plan.Seed, Machine: report.ThisMachine(),
		Fabric: &report.Fabric{
			Pairs: n * (n - 1), UnreachablePairs: f.Unreachable(), OutlierPairs: f.Outliers(),
			Waves: f.Waves, Again: f.Again, Seconds: f.Took.Seconds(), Cut: f.Cut,
		},
		Notes: f.notes(),
	}
	f.people(r.Fabric)
	f.unreached(r.Fabric)
	for _, o := range f.odds() {
		r.Fabric.Odd = append(r.Fabric.Odd, report.Odd{From: o.from, To: o.to, Usual: o.usual, Transport: o.transport, Reason: o.out.Reason})
	}
	for i := range f.verdicts {
		f.figure(&f.verdicts[i], r)
	}
	if t := f.Total; t != nil {
		r.Fabric.Total = &report.FabricTotal{
			Ranks: t.Ranks, Bytes: t.Slot, GBs: t.GBs(), Least: t.Least, Most: t.Most, Worst: t.Worst, Failed: t.Failed, Seconds: t.Took.Seconds(),
		}
	}
	return r
}

// people are the ranks and hosts.
func (f *Finding) people(to *report.Fabric) {
	for r, m := range f.members {
		one := report.FabricRank{Rank: r, Host: f.hostOf[r], Lost: f.lost[r]}
		if m != nil {
			one.PID, one.Listen = m.Facts.PID, m.Listen
		} else {
			one.Lost = "never came"
		}
		if f.lost[r] != "" {
			to.Lost = append(to.Lost, fmt.Sprintf("rank %d on %s: %s", r, f.hosts[f.hostOf[r]].name, f.lost[r]))
		}
		to.Ranks = append(to.Ranks, one)
	}
	if f.Absent != "" {
		to.Lost = append(to.Lost, f.Absent)
	}
	for h := range f.hosts {
		to.Hosts = append(to.Hosts, f.host(h))
	}
}

func (f *Finding) host(h int) report.FabricHost {
	host := report.FabricHost{Name: f.hosts[h].name, Ranks: f.hosts[h].ranks}
	for _, r := range host.Ranks {
		m := f.members[r]
		if m == nil {
			continue
		}
		if host.CPUs == 0 {
			x := &m.Facts
			host.CPUs, host.Kernel, host.Interface, host.MTU, host.Devices = x.CPUs, x.Kernel, x.Interface, x.MTU, x.Devices
		}
		for _, w := range m.Facts.Warnings {
			if !slices.ContainsFunc(host.Warnings, func(have string) bool { return wordsOf(have) == wordsOf(w) }) {
				host.Warnings = append(host.Warnings, w)
			}
		}
		for to := range f.members {
			c := f.cell(r, to)
			if r == to || c.out == nil {
				continue
			}
			text := c.out.Reason
			if c.out.NUMANode >= 0 {
				text += fmt.Sprintf(", NUMA node %d", c.out.NUMANode)
			}
			if !slices.Contains(host.Chosen, text) && len(host.Chosen) < 4 {
				host.Chosen = append(host.Chosen, text)
			}
		}
	}
	return host
}

// wordsOf a warning are what comes before its first number, which differs from
// one rank of a host to the next.
func wordsOf(warning string) string {
	if i := strings.IndexAny(warning, "0123456789"); i > 0 {
		return warning[:i]
	}
	return warning
}

// unreached are the pairs whose ranks were both there to the end, and whom
// they have in common.
func (f *Finding) unreached(to *report.Fabric) {
	var all []Sample
	var bad []int
	for a := range f.members {
		for b := range f.members {
			gone := f.members[a] == nil || f.members[b] == nil || f.lost[a] != "" || f.lost[b] != ""
			if a == b || gone {
				continue
			}
			s := Sample{From: a, To: b, FromHost: f.hostOf[a], ToHost: f.hostOf[b]}
			if c := f.cell(a, b); c.err == "" && c.first != "" {
				to.Unsteady = append(to.Unsteady, report.Unreachable{From: a, To: b, Error: strings.ReplaceAll(c.first, "\n", "; "), Remedy: f.remedy(s, c.first)})
			}
			if c := f.cell(a, b); c.err != "" {
				bad = append(bad, len(all))
				to.Unreachable = append(to.Unreachable, report.Unreachable{From: a, To: b, Error: strings.ReplaceAll(c.err, "\n", "; "), Remedy: f.remedy(s, c.err)})
			}
			all = append(all, s)
		}
	}
	f.blame(to, "no way", blame(all, bad, fromHost, toHost), blame(all, bad, fromRank, toRank))
}

// remedy is what to look at: both ranks were there to the end, so what is at
// fault lies between them.
func (f *Finding) remedy(s Sample, text string) string {
	from, to := f.members[s.From], f.members[s.To]
	between := fmt.Sprintf("both ranks run and reach rank 0, so look between %s and %s", f.hosts[s.FromHost].name, f.hosts[s.ToHost].name)
	switch {
	case strings.Contains(text, "checksum"):
		return "look at the error counters of the link and of both devices (ethtool -S, rdma statistic)"
	case strings.Contains(text, "open control connection"):
		host, _, err := net.SplitHostPort(to.Listen)
		if err != nil { // a unix socket
			return "both ranks run on one host: it is overloaded, or one of them is stuck"
		}
		return fmt.Sprintf("%s: `ip route get %s` there, firewalls, the VLAN of %s", between, host, cmp.Or(from.Facts.Interface, "the interface"))
	case strings.Contains(text, "no transport"):
		return "have the device up at both ends, and the same --transport"
	case strings.Contains(text, "verbs"):
		return between + ": is the switch's lossless class the one of --traffic-class, has every port the same MTU, does `ping` from one RDMA interface to the other work; psrt doctor on both, --transport tcp to see whether it is RDMA alone"
	}
	return between
}

// figure makes one figure's rows, and says what is usual and what is not.
func (f *Finding) figure(v *verdict, r *report.Report) {
	unit := "GB/s"
	if v.bytes == 0 {
		unit = "us"
	}
	for _, sp := range v.Spreads {
		r.Fabric.Kinds = append(r.Fabric.Kinds, report.FabricKind{
			Figure: v.name, Bytes: max(v.bytes, latencyBytes), Latency: v.bytes == 0, SameHost: sp.SameHost, Count: sp.Count, Median: sp.Median,
			MAD: sp.MAD, Best: sp.Best, Worst: sp.Worst, Threshold: sp.Threshold, Divided: sp.Divided,
		})
	}
	for i, s := range v.samples {
		row := f.row(v, s)
		if row.Pair.Outlier = slices.Contains(v.Slow, i); row.Pair.Outlier {
			r.Fabric.Outliers = append(r.Fabric.Outliers, report.Outlier{
				Figure: v.name, From: s.From, To: s.To, Value: s.Value, Median: v.spreadOf(s).Median, Times: v.times(s), Unit: unit,
			})
		}
		r.Rows = append(r.Rows, row)
	}
	f.blame(r.Fabric, v.name+" is slow", v.Hosts, v.Ranks)
}

// blame names hosts, and ranks of whom their host does not say it all.
func (f *Finding) blame(to *report.Fabric, figure string, hosts, ranks []Blame) {
	known := map[int]Blame{}
	for _, h := range hosts {
		known[h.Who] = h
		to.Blamed = append(to.Blamed, blamed(figure, "host "+f.hosts[h.Who].name, h))
	}
	for _, b := range ranks {
		host := f.hostOf[b.Who]
		if h, ok := known[host]; ok && len(f.hosts[host].ranks) == 1 && h.From == b.From && h.To == b.To {
			continue
		}
		to.Blamed = append(to.Blamed, blamed(figure, fmt.Sprintf("rank %d (%s)", b.Who, f.hosts[host].name), b))
	}
}

func blamed(figure, what string, b Blame) report.Blamed {
	way := "both ways"
	switch {
	case !b.To:
		way = "from it"
	case !b.From:
		way = "to it"
	}
	return report.Blamed{Figure: figure, What: what, Way: way}
}

func (f *Finding) row(v *verdict, s Sample) report.Row {
	out := f.cell(s.From, s.To).out
	row := report.Row{Load: out.Load, Limit: v.spreadOf(s).Median, Ratio: 1 / v.times(s), Pair: &report.Pair{
		From: s.From, To: s.To, FromHost: f.hosts[s.FromHost].name, ToHost: f.hosts[s.ToHost].name, SameHost: s.FromHost == s.ToHost,
		Transport: out.Transport, Device: out.Device, NUMANode: out.NUMANode, Times: v.times(s),
	}}
	if v.bytes == 0 {
		l := out.Latency
		row.Op, row.Bytes, row.Iterations, row.Latency = fmt.Sprintf("latency %d to %d", s.From, s.To), latencyBytes, out.PingPongs, &l
		row.Checksum = fmt.Sprintf("%08x", out.Checksum)
		return row
	}
	for _, w := range out.Writes {
		if w.Bytes == v.bytes {
			row.Op, row.Bytes, row.Iterations = fmt.Sprintf("write %d to %d", s.From, s.To), w.Bytes, w.Iterations
			row.Bandwidth = &report.Bandwidth{Avg: w.GBs(), Peak: w.GBs(), Rate: float64(w.Iterations) / w.Took.Seconds() / 1e6}
			row.Checksum = fmt.Sprintf("%08x", w.Checksum)
			row.CPUSecondsPerGB = w.CPUSeconds / (float64(w.Bytes) * float64(w.Iterations) / 1e9)
		}
	}
	return row
}

// notes say what the figures mean.
func (f *Finding) notes() []string {
	how := fmt.Sprintf("pairs were played in waves, %d of them: disjoint, and on a host no more at a time than it has CPUs and links for", f.Waves)
	if f.plan.Serial {
		how = "one pair was measured at a time"
	}
	if f.Again > 0 {
		how += fmt.Sprintf("; of slow ones %d again, alone, and the best counts", f.Again)
	}
	return []string{
		how,
		fmt.Sprintf("outlier: worse than the median of its kind of pair by more than %g deviations (MAD times 1.4826) and %g %% (latency, and %d us) or %g %% (writes), or %d times worse",
			f.plan.MADs, 100*f.plan.Latency, leastLatency, 100*f.plan.Bandwidth, extreme),
		"limit: the median of pairs of the same kind; ratio: share of it reached",
		fmt.Sprintf("! outlier, X not measured; all that was moved was checked by CRC-32C; threads that run Go: %d", runtime.GOMAXPROCS(0)),
	}
}

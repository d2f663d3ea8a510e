package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

const (
	// matrixRanks is how many ranks a matrix on a terminal has at most, and hosts.
	matrixRanks = 16
	// worstRows are shown where the matrix is too large.
	worstRows = 10
	// listed lines of one kind; the JSON has all.
	listed = 20
)

// fabricText writes the matrices and what was found, for people.
func (r *Report) fabricText(w io.Writer) error {
	f := r.Fabric
	b := &strings.Builder{}
	fmt.Fprintf(b, "# %s over %s, %s, %s (%.12s), seed %d\n", r.Suite, r.Transport, r.Time.UTC().Format("2006-01-02T15:04:05Z"), r.Program, r.Commit, r.Seed)
	for _, line := range f.lines() {
		fmt.Fprintf(b, "# %s\n", line)
	}
	for _, fig := range r.figures() {
		title := fmt.Sprintf("\n%s, GB/s, from (row) to (column)\n", fig.name)
		if fig.latency {
			title = fmt.Sprintf("\n%s, half round trip, us at the median, from (row) to (column)\n", fig.name)
		}
		switch {
		case len(f.Ranks) <= matrixRanks:
			b.WriteString(title)
			fig.matrix(b, len(f.Ranks))
		case len(f.Hosts) <= matrixRanks && len(f.Hosts) > 1:
			b.WriteString(strings.Replace(title, "from (row)", "the median of pairs from host (row)", 1))
			fig.byHost(b, f)
			fig.worst(b, f)
		default:
			b.WriteString(title)
			fig.worst(b, f)
		}
	}
	f.kinds(b)
	f.found(b)
	for _, n := range r.Notes {
		fmt.Fprintln(b, "# "+n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are the hosts, those that are alike in one line.
func (f *Fabric) lines() []string {
	type group struct {
		names []string
		ranks []int
	}
	var order []string
	groups := map[string]*group{}
	for i := range f.Hosts {
		h := &f.Hosts[i]
		text := h.text()
		g := groups[text]
		if g == nil {
			g = &group{}
			groups[text] = g
			order = append(order, text)
		}
		g.names = append(g.names, h.Name)
		g.ranks = append(g.ranks, h.Ranks...)
	}
	var list []string
	for i, text := range order {
		if i == listed {
			return append(list, fmt.Sprintf("%d more kinds of host; --json has them all", len(order)-listed))
		}
		g := groups[text]
		names := strings.Join(g.names[:min(len(g.names), 8)], " ")
		if more := len(g.names) - 8; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		slices.Sort(g.ranks)
		list = append(list, fmt.Sprintf("%s: rank %s, %s", names, ranks(g.ranks), text))
	}
	return list
}

// text is what may be the same for several hosts.
func (h *FabricHost) text() string {
	s := fmt.Sprintf("%d CPUs, Linux %s", h.CPUs, h.Kernel)
	if h.Kernel == "" {
		s = "nothing known"
	}
	if h.Interface != "" {
		s += fmt.Sprintf(", %s mtu %d", h.Interface, h.MTU)
	}
	if len(h.Devices) > 0 {
		s += ", RDMA " + strings.Join(h.Devices, " ")
	}
	for _, c := range h.Chosen {
		s += "; " + c
	}
	for _, x := range h.Warnings {
		s += "; WARNING: " + x
	}
	return s
}

// ranks writes 0, 1, 2, 5 as "0-2,5".
func ranks(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		part := strconv.Itoa(list[i])
		if j > i {
			part += "-" + strconv.Itoa(list[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// three digits that count.
func digits(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// text of one place in the matrix: ! marks an outlier, X what is not reached.
func (f *figure) text(from, to int) string {
	row := f.rows[[2]int{from, to}]
	switch {
	case from == to:
		return "-"
	case row == nil:
		return "X"
	case row.Pair.Outlier:
		return digits(row.value()) + "!"
	}
	return digits(row.value())
}

func (f *figure) matrix(w io.Writer, n int) {
	t := tabwriter.NewWriter(w, 6, 0, 1, ' ', tabwriter.AlignRight)
	for to := range n {
		fmt.Fprintf(t, "\t%d", to)
	}
	fmt.Fprint(t, "\t\n")
	for from := range n {
		fmt.Fprintf(t, "%d", from)
		for to := range n {
			fmt.Fprint(t, "\t"+f.text(from, to))
		}
		fmt.Fprint(t, "\t\n")
	}
	t.Flush()
}

// byHost shows medians over the pairs of two hosts; ! where one of them is an
// outlier, X where one is not reached.
func (f *figure) byHost(w io.Writer, fabric *Fabric) {
	t := tabwriter.NewWriter(w, 6, 0, 1, ' ', tabwriter.AlignRight)
	for _, h := range fabric.Hosts {
		fmt.Fprintf(t, "\t%s", h.Name)
	}
	fmt.Fprint(t, "\t\n")
	for _, a := range fabric.Hosts {
		fmt.Fprint(t, a.Name)
		for _, b := range fabric.Hosts {
			fmt.Fprint(t, "\t"+f.between(a.Ranks, b.Ranks))
		}
		fmt.Fprint(t, "\t\n")
	}
	t.Flush()
}

func (f *figure) between(from, to []int) string {
	var values []float64
	mark := ""
	for _, a := range from {
		for _, b := range to {
			row := f.rows[[2]int{a, b}]
			switch {
			case a == b:
				continue
			case row == nil:
				mark = "X"
				continue
			case row.Pair.Outlier && mark == "":
				mark = "!"
			}
			values = append(values, row.value())
		}
	}
	if len(values) == 0 {
		return cmp.Or(mark, "-")
	}
	slices.Sort(values)
	return digits(values[len(values)/2]) + mark
}

// worst lists the pairs that are furthest from the median of their kind.
func (f *figure) worst(w io.Writer, fabric *Fabric) {
	var rows []*Row
	for _, row := range f.rows {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(b.Pair.Times, a.Pair.Times), cmp.Compare(a.Pair.From, b.Pair.From), cmp.Compare(a.Pair.To, b.Pair.To))
	})
	fmt.Fprintf(w, "the %d worst:\n", min(worstRows, len(rows)))
	for _, row := range rows[:min(worstRows, len(rows))] {
		p := row.Pair
		fmt.Fprintf(w, "  rank %d (%s) to rank %d (%s): %s, %.2f times worse than the median\n", p.From, p.FromHost, p.To, p.ToHost, digits(row.value()), p.Times)
	}
}

// kinds shows what is usual.
func (f *Fabric) kinds(w io.Writer) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "figure\tpairs\tcount\tmedian\tMAD\tbest\tworst\toutlier beyond\tunit\t\n")
	for _, k := range f.Kinds {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", k.Figure, k.pairs(), k.Count, digits(k.Median), digits(k.MAD), digits(k.Best), digits(k.Worst), digits(k.Threshold), k.unit())
	}
	t.Flush()
}

func (k *FabricKind) pairs() string {
	if k.SameHost {
		return "same host"
	}
	return "other host"
}

func (k *FabricKind) where() string {
	if k.SameHost {
		return "within a host"
	}
	return "between hosts"
}

func (k *FabricKind) unit() string {
	if k.Latency {
		return "us"
	}
	return "GB/s"
}

// found says what is wrong, and the verdict.
func (f *Fabric) found(w io.Writer) {
	fmt.Fprintln(w)
	for _, line := range f.Findings() {
		fmt.Fprintln(w, line)
	}
}

// Findings are what was found, in lines for people; the last is the verdict.
func (f *Fabric) Findings() []string {
	var list []string
	some := func(kind string, lines []string) {
		for i, l := range lines {
			if i == listed {
				list = append(list, fmt.Sprintf("%s: %d more; --json has them all", kind, len(lines)-listed))
				return
			}
			list = append(list, kind+": "+l)
		}
	}
	some("LOST", f.Lost)
	var lines []string
	for _, u := range f.Unreachable {
		lines = append(lines, fmt.Sprintf("%s cannot reach %s: %s; %s", f.rank(u.From), f.rank(u.To), u.Error, u.Remedy))
	}
	some("UNREACHABLE", lines)
	lines = nil
	for _, u := range f.Unsteady {
		lines = append(lines, fmt.Sprintf("%s to %s failed, and worked when it was tried again: %s; %s", f.rank(u.From), f.rank(u.To), u.Error, u.Remedy))
	}
	some("UNSTEADY", lines)
	lines = nil
	for _, o := range f.Odd {
		lines = append(lines, fmt.Sprintf("%s to %s goes by %s, where most like it go by %s: %s", f.rank(o.From), f.rank(o.To), o.Transport, o.Usual, o.Reason))
	}
	some("ODD", lines)
	lines = nil
	for _, b := range f.Blamed {
		lines = append(lines, fmt.Sprintf("%s: %s with most others, %s", b.What, b.Figure, b.Way))
	}
	some("BLAME", lines)
	lines = nil
	for _, o := range f.Outliers {
		lines = append(lines, fmt.Sprintf("%s to %s: %s %s %s, %.2f times worse than the median of %s", f.rank(o.From), f.rank(o.To), o.Figure, digits(o.Value), o.Unit, o.Times, digits(o.Median)))
	}
	some("OUTLIER", lines)
	for _, k := range f.Kinds {
		if k.Divided {
			list = append(list, fmt.Sprintf("DIVIDED: %s %s: the median, %s %s, is far from the best, %s, so little can stand out from it: one slow host of three or four has most of the pairs, and a network may have near and far; look for what the good pairs leave out",
				k.Figure, k.where(), digits(k.Median), k.unit(), digits(k.Best)))
		}
	}
	if t := f.Total; t != nil {
		some("ALL AT ONCE", t.Failed)
		if t.Ranks > 0 {
			list = append(list, fmt.Sprintf("all pairs at once, writes of %d bytes for %.1f s: %s GB/s in total, %s to %s GB/s a rank (least: %s)",
				t.Bytes, t.Seconds, digits(t.GBs), digits(t.Least), digits(t.Most), f.rank(t.Worst)))
		}
	}
	return append(list, f.verdict())
}

func (f *Fabric) rank(r int) string {
	if r < 0 || r >= len(f.Ranks) {
		return fmt.Sprintf("rank %d", r)
	}
	return fmt.Sprintf("rank %d (%s)", r, f.Hosts[f.Ranks[r].Host].Name)
}

// verdict is all in one line.
func (f *Fabric) verdict() string {
	hosts, there := map[int]bool{}, 0
	for _, r := range f.Ranks {
		if r.Lost == "" {
			hosts[r.Host] = true
			there++
		}
	}
	s := count(there, "rank")
	if lost := len(f.Ranks) - there; lost > 0 {
		s += fmt.Sprintf(" (%d more lost)", lost)
	}
	s += fmt.Sprintf(" on %s, %s in %.1f s: ", count(len(hosts), "host"), count(f.Pairs, "ordered pair"), f.Seconds)
	if f.UnreachablePairs > 0 {
		s += count(f.UnreachablePairs, "pair") + " NOT measured"
	} else {
		s += "all reach each other"
	}
	if f.Cut != "" {
		s = "CUT SHORT (" + f.Cut + "): " + s
	}
	if f.OutlierPairs > 0 {
		return s + ", outliers among " + count(f.OutlierPairs, "pair")
	}
	return s + ", no outliers"
}

// count is a number of things in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

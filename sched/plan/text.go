package plan

import (
	"fmt"
	"math"
	"strings"
)

// Text is a prediction for people.
func (p Prediction) Text(c *Cluster) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("step", "%s, %s examples/s with %s", duration(p.StepSeconds), count(p.ExamplesPerS), c.Job.Sync)
	line("limited by", "%s", p.Bottleneck)
	line("way of a step", "%s: pull %s, compute %s, push %s, latency %s%s", duration(p.WaySeconds), duration(p.Way.Pull), duration(p.Way.Compute), duration(p.Way.Push), duration(p.Way.Latency), halves(p.Way))
	b.WriteString("\nhost             resource          busy       have  would do\n")
	for _, r := range p.Resources {
		fmt.Fprintf(&b, "%-16s %-15s %4.0f %%  %6.0f %s  %.1f\n", r.Host, r.Name, 100*r.Part, r.Have, r.Unit, r.Need)
	}
	b.WriteString("\n")
	line("rows", "%s distinct in a worker's %s ids; it pulls %s and pushes %s a step", count(p.DistinctRows), count(float64(c.Job.Batch*c.Model.Fields)/first(c.count())), size(p.PullBytes), size(p.PushBytes))
	if p.WorkersPerDense > 0 {
		line("activations", "%s of a worker's step, and their gradients back", size(p.ActivationBytes))
		line("halves", "%.2g workers to a dense rank: neither waits for the other", p.WorkersPerDense)
	}
	line("link needed", "%s/s each way at a worker, to keep up with its computing", size(p.NeededRate))
	line("table", "%s at each server, %d replicas included", size(p.ServerBytes), c.Job.Replicas)
	line("a row", "%s on average", duration(p.AccessSeconds))
	line("queue pairs", "%d at a server", p.QueuePairs)
	line("recovery", "%s from a server's death until its rows are whole again%s", duration(p.RecoverSeconds), p.Recovery.text())
	line("in proportion", "%s", p.proportion())
	if p.MemoryShort != "" {
		line("warning", "%s", p.MemoryShort)
	}
	return b.String()
}

// proportion is CPU : GPU : SSD : NIC as they would be busy alike, cores of all hosts
// against the links.
func (p Prediction) proportion() string {
	need := map[string]float64{}
	for _, r := range p.Resources {
		need[r.Unit] += r.Need
	}
	base := need["links"]
	if base == 0 {
		base = need["cores"]
	}
	var parts []string
	for _, u := range []string{"cores", "cards", "devices", "links"} {
		if need[u] > 0 {
			parts = append(parts, fmt.Sprintf("%.2g %s", need[u]/base, u))
		}
	}
	return strings.Join(parts, " : ")
}

// text is what a recovery is made of.
func (r Recovery) text() string {
	if r.DetectSeconds == 0 {
		return ", once it is started again"
	}
	text := fmt.Sprintf(": detected after %s, rows in %s", duration(r.DetectSeconds), duration(r.RefillSeconds))
	if r.LinkShare > 0 {
		text += fmt.Sprintf(" at %.2f of the link", r.LinkShare)
	}
	return fmt.Sprintf("%s; %s more if its host falls silent", text, duration(r.SilentSeconds))
}

// halves is empty where workers compute the whole model.
func halves(w Way) (text string) {
	if w.Between > 0 {
		text = ", between the halves " + duration(w.Between)
	}
	if w.Reading > 0 {
		text += ", reading on the same cores " + duration(w.Reading)
	}
	return text
}

func first(a, _ float64) float64 { return a }

func duration(s float64) string {
	for _, u := range []struct {
		from float64
		unit string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}} {
		if s >= u.from {
			return fmt.Sprintf("%.3g %s", s/u.from, u.unit)
		}
	}
	return fmt.Sprintf("%.3g ns", s*1e9)
}

// Quantity is n of a unit for people.
func Quantity(n float64, unit string) string {
	if unit == "s" {
		return duration(n)
	}
	return scaled(n, unit)
}

func count(n float64) string { return scaled(n, "") }
func size(n float64) string  { return scaled(n, "B") }

func scaled(n float64, unit string) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if math.Abs(n) >= u.from {
			return fmt.Sprintf("%.3g%s%s", n/u.from, u.name, unit)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%.3g %s", n, unit))
}

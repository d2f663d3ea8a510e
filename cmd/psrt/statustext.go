package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"psrt/sched/job"
	"psrt/sched/metrics"
)

// printStatus is a job for people.
func printStatus(w io.Writer, s *jobStatus) error {
	head := "job"
	if s.PID != 0 {
		head = fmt.Sprintf("job %d", s.PID)
	}
	fmt.Fprintf(w, "%s: %d server(s), %d worker(s)", head, len(s.Servers), len(s.Workers))
	if s.Missing > 0 {
		fmt.Fprintf(w, ", %d rank(s) did not answer", s.Missing)
	}
	fmt.Fprintf(w, "; rates over %.1f s\n", s.Seconds)
	for _, r := range s.Silent {
		fmt.Fprintf(w, "MISSING: %s at %s: %s\n", r.Rank, r.Addr, r.Why)
	}
	for i := range s.Stalls {
		fmt.Fprintf(w, "STALL: %s\n", &s.Stalls[i])
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "server\tbusy\tcpu\tRSS MB\trows\ttable MB\tin MB/s\tout MB/s\treq/s\tin hand\tparked\theld\tcredits\tgranted/window KiB\t")
	for _, r := range s.Servers {
		window := "-"
		if r.WindowBytes > 0 {
			window = fmt.Sprintf("%.0f/%.0f", r.OutstandingBytes/1024, r.WindowBytes/1024)
		}
		if !r.Up {
			window += " (lanes busy)"
		}
		fmt.Fprintf(t, "%s\t%.0f %%\t%.2f\t%.0f\t%.0f\t%.1f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t\n", r.Rank, 100*r.BusyShare, r.CPUShare, r.RSSBytes/1e6, r.Rows,
			r.TableBytes/1e6, r.ReceivedPerS/1e6, r.SentPerS/1e6, r.RequestsPerS, r.Requests, r.Parked, r.Held, r.Credits, window)
	}
	printTiers(t, s.Status)
	fmt.Fprintln(t, "\nworker\tsteps\texamples\tex/s\tio\tcomm\tcompute\tcpu\tRSS MB\t")
	for _, r := range s.Workers {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%s\t%.0f %%\t%.0f %%\t%.0f %%\t%.2f\t%.0f\t\n", r.Rank, r.Steps, r.Examples, si(r.ExamplesPerS), 100*r.IO, 100*r.Comm, 100*r.Compute, r.CPUShare, r.RSSBytes/1e6)
	}
	fmt.Fprintln(t, "\nfan-in\tfrom\tclock\tMB\tMB/s\tshare\treq/s\t\t")
	for _, r := range s.Servers {
		for _, f := range r.FanIn {
			clock, word := fmt.Sprint(f.Clock), ""
			if f.Clock < 0 {
				clock = "-"
			}
			switch {
			case f.Hot:
				word = "hot"
			case f.Straggler:
				word = "straggler"
			}
			fmt.Fprintf(t, "%s\tworker %s\t%s\t%.1f\t%.2f\t%.1f %%\t%.0f\t%s\t\n", r.Rank, f.Worker, clock, f.Bytes/1e6, f.BytesPerS/1e6, 100*f.Share, f.RequestsPerS, word)
		}
	}
	printCluster(t, s.Cluster)
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Servers) > 0 && s.Servers[0].Meter != "" {
		fmt.Fprintf(w, "\nstragglers and hot workers by %s\n", s.Servers[0].Meter)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// printCluster is who has which groups, in a job whose servers come and go.
func printCluster(t io.Writer, c *job.Cluster) {
	if c == nil {
		return
	}
	fmt.Fprintf(t, "\ncluster\thost\track\theads\tgroups\tjoins\t\tepoch %d: %d groups of %d replica(s), %d short, %d joining\t\n", c.Epoch, c.Groups, c.Replicas, c.Short, c.Joins)
	for _, s := range c.Servers {
		word := s.State()
		if word == "well" {
			word = ""
		}
		fmt.Fprintf(t, "server %d\t%s\t%s\t%d\t%d\t%d\t%s\t\t\n", s.Server, dash(s.Host), dash(s.Rack), s.Heads, s.Groups, s.Joins, word)
	}
	for _, g := range c.List {
		if g.Joiner != nil {
			fmt.Fprintf(t, "group %d\tepoch %d\tchain %v\tserver %d joins\t\t\t\t\t\n", g.Group, g.Epoch, g.Chain, *g.Joiner)
		}
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printTiers is where rows lie on servers that do not have all in memory.
func printTiers(t io.Writer, s *metrics.Status) {
	head := false
	for _, r := range s.Servers {
		x := r.Tiers
		if x == nil {
			continue
		}
		if !head {
			fmt.Fprintln(t, "\nrows\ton device\tin memory\ton disk\thits device\thits memory\tread/s\twaited/s\tahead/s\twritten/s\tevicted/s\tcompacted/s\tlive/log MB\tlimit MB\terrors\t")
			head = true
		}
		device, limit := "-", "-"
		if x.DeviceFailed > 0 {
			device = "FAILED"
		} else if x.DeviceRows > 0 {
			device = percent(x.DeviceHitRate)
		}
		if x.LimitBytes > 0 {
			limit = fmt.Sprintf("%.0f", x.LimitBytes/1e6)
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f/%.1f\t%s\t%.0f\t\n", r.Rank, x.DeviceRows, x.MemoryRows, x.DiskRows, device, percent(x.MemoryHitRate),
			x.ReadRowsPerS, x.SyncReadsPerS, x.AheadRowsPerS, x.WrittenRowsPerS, x.EvictedPerS, x.CompactedPerS, x.LiveBytes/1e6, x.LogBytes/1e6, limit, x.Errors)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

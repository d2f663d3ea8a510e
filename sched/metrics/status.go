package metrics

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"psrt/sched/stall"
)

// Snapshot is what endpoints showed at one moment.
type Snapshot struct {
	at      time.Time
	missing int // endpoints
	silent  []SilentRank
	stalls  []stall.Wait
	values  map[series]float64
}

// series is a name and those labels that a Status is by; such as differ in others
// are added up.
type series struct {
	name, rank, worker, lane string
	what                     string // tier, or table, stage, state, device, kind or meter
}

// Look asks endpoints, HOST:PORT or paths of unix sockets, all at once.
func Look(ctx context.Context, endpoints []string) Snapshot {
	places := make([]Place, len(endpoints))
	for i, e := range endpoints {
		places[i].Addr = e
	}
	return LookAt(ctx, places)
}

// LookAt asks ranks, all at once, for their figures and their stalls.
func LookAt(ctx context.Context, places []Place) Snapshot {
	s := Snapshot{at: time.Now(), values: map[series]float64{}}
	parts, waits, errs := make([][]*dto.MetricFamily, len(places)), make([][]stall.Wait, len(places)), make([]error, len(places))
	var wg sync.WaitGroup
	for i := range places {
		wg.Go(func() {
			if parts[i], errs[i] = places[i].figures(ctx); errs[i] == nil {
				waits[i] = places[i].waits(ctx)
			}
		})
	}
	wg.Wait()
	for i, p := range parts {
		s.stalls = append(s.stalls, waits[i]...)
		if errs[i] != nil {
			s.missing++
			if places[i].Name != "" {
				s.silent = append(s.silent, SilentRank{places[i].who(), places[i].Addr, whySilent(errs[i])})
			}
		}
		for _, f := range p {
			if !strings.HasPrefix(f.GetName(), "psrt_") && !strings.HasPrefix(f.GetName(), "process_") {
				continue
			}
			for _, m := range f.Metric {
				s.add(f.GetName(), m)
			}
		}
	}
	return s
}

func (s *Snapshot) add(name string, m *dto.Metric) {
	k := series{name: name}
	for _, l := range m.Label {
		switch l.GetName() {
		case RankLabel:
			k.rank = l.GetValue()
		case "worker":
			k.worker = l.GetValue()
		case "tier": // labels come in the order of their names: it is behind "table"
			k.what = l.GetValue()
		case "table", "stage", "state", "device", "kind", "meter":
			k.what = l.GetValue()
		case "lane":
			k.lane = l.GetValue()
		}
	}
	switch {
	case m.Counter != nil:
		s.values[k] += m.Counter.GetValue()
	case m.Gauge != nil:
		s.values[k] += m.Gauge.GetValue()
	}
}

// Status is a job between two looks.
type Status struct {
	PID     int     `json:"pid,omitempty"` // of the launcher
	Seconds float64 `json:"seconds"`       // between the looks: what rates are over
	Missing int     `json:"ranks_missing"`
	// Silent are those of them whose names are known.
	Silent  []SilentRank   `json:"silent,omitempty"`
	Stalls  []stall.Wait   `json:"stalls,omitempty"`
	Servers []ServerStatus `json:"servers"`
	Workers []WorkerStatus `json:"workers"`
}

// SilentRank is one that did not answer.
type SilentRank struct {
	Rank string `json:"rank"`
	Addr string `json:"addr"`
	Why  string `json:"why"`
}

// ServerStatus is a server's part. Rates are a second's.
type ServerStatus struct {
	Rank             string        `json:"rank"`
	Up               bool          `json:"up"` // all lanes have answered
	Rows             float64       `json:"rows"`
	TableBytes       float64       `json:"table_bytes"`
	RSSBytes         float64       `json:"rss_bytes"`
	CPUShare         float64       `json:"cpu_share"`  // of a core
	BusyShare        float64       `json:"busy_share"` // of the lanes, on average
	ReceivedPerS     float64       `json:"received_bytes_per_s"`
	SentPerS         float64       `json:"sent_bytes_per_s"`
	RequestsPerS     float64       `json:"requests_per_s"`
	Requests         float64       `json:"requests"` // in hand
	Parked           float64       `json:"parked_pulls"`
	Held             float64       `json:"held_pushes"`
	Credits          float64       `json:"credits"`
	OutstandingBytes float64       `json:"outstanding_bytes"`
	WindowBytes      float64       `json:"window_bytes"`
	Meter            string        `json:"meter,omitempty"`
	Tiers            *TierStatus   `json:"tiers,omitempty"` // absent where all rows are in memory
	FanIn            []FanInStatus `json:"fan_in"`
}

// FanInStatus is what one worker sends to one server.
type FanInStatus struct {
	Worker       string  `json:"worker"`
	Clock        int64   `json:"clock"` // -1: it has left
	Bytes        float64 `json:"bytes"`
	BytesPerS    float64 `json:"bytes_per_s"`
	Share        float64 `json:"share"` // of all that came between the looks
	RequestsPerS float64 `json:"requests_per_s"`
	Straggler    bool    `json:"straggler,omitempty"`
	Hot          bool    `json:"hot,omitempty"`
}

// WorkerStatus is a worker's part.
type WorkerStatus struct {
	Rank         string  `json:"rank"`
	Steps        float64 `json:"steps"`
	Examples     float64 `json:"examples"`
	ExamplesPerS float64 `json:"examples_per_s"`
	IO           float64 `json:"io"` // shares of the time
	Comm         float64 `json:"comm"`
	Compute      float64 `json:"compute"`
	RSSBytes     float64 `json:"rss_bytes"`
	CPUShare     float64 `json:"cpu_share"`
}

// Between tells what has happened from one look to the next.
func Between(before, after Snapshot) Status {
	b := between{before, after, after.at.Sub(before.at).Seconds()}
	st := Status{Seconds: b.seconds, Missing: after.missing, Silent: after.silent, Stalls: after.stalls}
	for _, rank := range after.ranks() {
		switch {
		case strings.HasPrefix(rank, "server "):
			st.Servers = append(st.Servers, b.server(rank))
		case strings.HasPrefix(rank, "worker "):
			st.Workers = append(st.Workers, b.worker(rank))
		}
	}
	return st
}

// ranks are those shown: "server 2" before "server 10".
func (s *Snapshot) ranks() []string {
	var all []string
	for k := range s.values {
		all = append(all, k.rank)
	}
	slices.SortFunc(all, byNumber)
	return slices.Compact(all)
}

func byNumber(a, b string) int {
	kindA, numberA, _ := strings.Cut(a, " ")
	kindB, numberB, _ := strings.Cut(b, " ")
	x, _ := strconv.Atoi(numberA)
	y, _ := strconv.Atoi(numberB)
	return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(x, y), cmp.Compare(a, b))
}

type between struct {
	before, after Snapshot
	seconds       float64
}

// sum adds the series of a name and rank, of one worker or all ("").
func (s *Snapshot) sum(name, rank, worker, what string) (v float64) {
	for k, x := range s.values {
		if k.name == name && k.rank == rank && (worker == "" || k.worker == worker) && (what == "" || k.what == what) {
			v += x
		}
	}
	return v
}

// rate is a counter's; one that began anew counts from zero.
func (b *between) rate(name, rank, worker, what string) float64 {
	old, now := b.before.sum(name, rank, worker, what), b.after.sum(name, rank, worker, what)
	if now < old {
		old = 0
	}
	if b.seconds <= 0 {
		return 0
	}
	return (now - old) / b.seconds
}

func (b *between) server(rank string) ServerStatus {
	now := func(name string) float64 { return b.after.sum(name, rank, "", "") }
	s := ServerStatus{Rank: rank, Up: now("psrt_server_up") == 1, Rows: now("psrt_server_rows"), TableBytes: now("psrt_server_table_bytes"),
		RSSBytes: now("process_resident_memory_bytes"), CPUShare: b.rate("process_cpu_seconds_total", rank, "", ""),
		BusyShare:    b.rate("psrt_lane_busy_seconds_total", rank, "", ""),
		ReceivedPerS: b.rate("psrt_server_received_bytes_total", rank, "", ""), SentPerS: b.rate("psrt_server_sent_bytes_total", rank, "", ""),
		RequestsPerS: b.rate("psrt_server_requests_total", rank, "", ""),
		Requests:     b.after.sum("psrt_lane_requests", rank, "", "all"), Parked: b.after.sum("psrt_lane_requests", rank, "", "parked"),
		Held: b.after.sum("psrt_lane_requests", rank, "", "held"), Credits: now("psrt_lane_credits"),
		OutstandingBytes: now("psrt_fanin_outstanding_bytes"), WindowBytes: now("psrt_fanin_window_bytes"), Tiers: b.tiers(rank)}
	workers, lanes := map[string]bool{}, 0
	for k := range b.after.values {
		if k.rank == rank && k.name == "psrt_lane_busy_seconds_total" {
			lanes++
		}
		if k.rank == rank && k.name == "psrt_view_info" {
			s.Meter = k.what
		}
		if k.rank == rank && k.worker != "" {
			workers[k.worker] = true
		}
	}
	s.BusyShare /= float64(max(1, lanes))
	for w := range workers {
		f := FanInStatus{Worker: w, Clock: -1, Bytes: b.after.sum("psrt_server_received_bytes_total", rank, w, ""),
			BytesPerS: b.rate("psrt_server_received_bytes_total", rank, w, ""), RequestsPerS: b.rate("psrt_server_requests_total", rank, w, ""),
			Straggler: b.after.sum("psrt_view_straggler", rank, w, "") == 1, Hot: b.after.sum("psrt_view_hot", rank, w, "") == 1}
		if at, known := b.after.values[series{name: "psrt_server_clock", rank: rank, worker: w}]; known {
			f.Clock = int64(at)
		}
		if s.ReceivedPerS > 0 {
			f.Share = f.BytesPerS / s.ReceivedPerS
		}
		s.FanIn = append(s.FanIn, f)
	}
	slices.SortFunc(s.FanIn, func(x, y FanInStatus) int { return byNumber("w "+x.Worker, "w "+y.Worker) })
	return s
}

func (b *between) worker(rank string) WorkerStatus {
	stage := func(name string) float64 { return b.rate("psrt_worker_stage_seconds_total", rank, "", name) }
	return WorkerStatus{Rank: rank, Steps: b.after.sum("psrt_worker_steps_total", rank, "", ""), Examples: b.after.sum("psrt_worker_examples_total", rank, "", ""),
		ExamplesPerS: b.rate("psrt_worker_examples_total", rank, "", ""), IO: stage("io"), Comm: stage("comm"), Compute: stage("compute"),
		RSSBytes: b.after.sum("process_resident_memory_bytes", rank, "", ""), CPUShare: b.rate("process_cpu_seconds_total", rank, "", "")}
}

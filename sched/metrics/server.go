package metrics

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// Server is a sched/server.Server, as far as it is shown.
type Server interface {
	// StatsWithin asks the lanes, of which one may be busy for longer.
	StatsWithin(time.Duration) (psmsg.StatsReply, error)
	// Flows and Latencies ask nobody.
	Flows() []psmsg.FlowStats
	Latencies() map[psmsg.Kind]usage.Counts
}

// laneWithin is how long a scrape waits for a busy lane.
const laneWithin = 500 * time.Millisecond

var (
	serverUp       = gauge("psrt_server_up", "1 where all lanes answered this scrape in time; else what only they know is missing.")
	serverReceived = counter("psrt_server_received_bytes_total", "Bytes that came from a worker: requests, keys, gradients.", "worker", "table")
	serverSent     = counter("psrt_server_sent_bytes_total", "Bytes that went to a worker: answers, values.", "worker", "table")
	serverRequests = counter("psrt_server_requests_total", "Requests that came, those sent again included.", "worker", "table", "kind")
	serverLatency  = metric{prometheus.NewDesc("psrt_server_request_seconds", "From a request's arrival at a lane to its answer, waiting for the clocks included.", []string{"kind"}, nil), 0}

	serverRows    = gauge("psrt_server_rows", "Rows of a table on this server.", "table")
	serverMemory  = gauge("psrt_server_table_bytes", "Memory of a table on this server.", "table")
	serverClock   = gauge("psrt_server_clock", "The step that a worker is in, the lowest of the lanes'; absent for one that has left.", "worker")
	serverMerged  = counter("psrt_server_merged_pushes_total", "Pushes that were applied together with another.")
	serverTwice   = counter("psrt_server_duplicate_pushes_total", "Pushes that came again after a reconnect, and counted once.")
	serverStale   = counter("psrt_server_stale_tickets_total", "Pushes by a ticket that was forgotten, sent again with keys.")
	serverRefused = counter("psrt_server_refused_rows_total", "Rows whose gradient was not finite.")
	serverCopied  = counter("psrt_server_copied_bytes_total", "Payload moved in user space, by place; see docs/zero-copy.md.", "place")

	laneBusy     = counter("psrt_lane_busy_seconds_total", "Time that a lane was at work; its rate is the lane's busy share.", "lane")
	laneSessions = gauge("psrt_lane_sessions", "Workers connected to a lane.", "lane")
	laneQueue    = gauge("psrt_lane_requests", "Requests at a lane: in hand (all), parked (pulls that wait for the clocks), held (pushes that wait for their step).", "lane", "state")
	laneCredits  = gauge("psrt_lane_credits", "Requests that the lane's workers may still send.", "lane")
)

type serverCollector struct {
	server Server
	mu     sync.Mutex // one scrape at a time asks the lanes
	named  map[string]bool
}

// Describe has nothing to say: what there is shows when it is collected.
func (*serverCollector) Describe(chan<- *prometheus.Desc) {}

func (c *serverCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := sink(ch)
	stats, err := c.server.StatsWithin(laneWithin)
	out.put(serverUp, flag(err == nil))
	out.flows(c.server.Flows())
	for kind, counts := range c.server.Latencies() {
		out.durations(serverLatency, counts, kind.String())
	}
	if err != nil {
		return // sums over some of the lanes would go down and up again
	}
	out.tables(bounded(stats.Tables, c.named))
	out.disks(stats.Disks)
	out.put(serverMerged, float64(stats.Merged))
	out.put(serverTwice, float64(stats.Duplicates))
	out.put(serverStale, float64(stats.StaleTickets))
	out.put(serverRefused, float64(stats.RefusedRows))
	for place, n := range places(stats.Copied) {
		out.put(serverCopied, n, place)
	}
	out.lanes(stats.Lanes)
	out.links(stats.FanIn)
	if stats.View != nil {
		out.view(stats.View)
	}
}

// places are a count's parts by their names in JSON: there is one list of them.
func places(c psmsg.CopiedBytes) (parts map[string]float64) {
	if text, err := json.Marshal(c); err != nil || json.Unmarshal(text, &parts) != nil {
		return nil // plain numbers: it cannot fail
	}
	return parts
}

func (s sink) flows(flows []psmsg.FlowStats) {
	type series struct{ worker, table, kind string }
	in, sent, requests := sums[series]{}, sums[series]{}, sums[series]{}
	for _, f := range flows {
		k := series{worker: worker(f.Worker), table: f.Table}
		in.add(k, float64(f.InBytes))
		sent.add(k, float64(f.OutBytes))
		for kind, n := range map[string]uint64{"pull": f.Pulls, "push": f.Pushes} {
			k.kind = kind
			requests.add(k, float64(n))
		}
	}
	for k, v := range in {
		s.put(serverReceived, v, k.worker, k.table)
	}
	for k, v := range sent {
		s.put(serverSent, v, k.worker, k.table)
	}
	for k, v := range requests {
		s.put(serverRequests, v, k.worker, k.table, k.kind)
	}
}

func (s sink) lanes(lanes []psmsg.LaneStats) {
	clocks := map[string]int64{}
	for _, l := range lanes {
		lane := strconv.Itoa(l.Lane)
		s.put(laneBusy, l.BusySeconds, lane)
		s.put(laneSessions, float64(l.Sessions), lane)
		s.put(laneCredits, float64(l.Credits), lane)
		s.put(laneQueue, float64(l.Requests), lane, "all")
		s.put(laneQueue, float64(l.Parked), lane, "parked")
		s.put(laneQueue, float64(l.Held), lane, "held")
		for w, at := range l.Clocks {
			if low, known := clocks[worker(w)]; at >= 0 && (!known || at < low) {
				clocks[worker(w)] = at
			}
		}
	}
	for w, at := range clocks {
		s.put(serverClock, float64(at), w)
	}
}

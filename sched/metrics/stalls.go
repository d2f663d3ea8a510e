package metrics

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"psrt/sched/stall"
)

const (
	// stallsPath of an endpoint has what its ranks wait for too long, as JSON.
	stallsPath = "/stalls"
	// waitsWithin is how long a rank may take to find out: it asks others.
	waitsWithin = 5 * time.Second
)

// waiter is a Gatherer that knows of stalls.
type waiter interface {
	Waits(ctx context.Context) []stall.Wait
}

func showWaits(w http.ResponseWriter, waits []stall.Wait) {
	if waits == nil {
		waits = []stall.Wait{}
	}
	showJSON(w, waits)
}

func showJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader is gone
}

// waits asks a rank; one that cannot be asked has none to tell.
func (p *Place) waits(ctx context.Context) (waits []stall.Wait) {
	_ = p.Get(ctx, stallsPath, "", waitsWithin, func(r io.Reader, _ http.Header) error { return json.NewDecoder(r).Decode(&waits) })
	return waits
}

// Waits are those of all ranks of the job on this machine.
func (j *Job) Waits(ctx context.Context) (all []stall.Wait) {
	parts := make([][]stall.Wait, len(j.sockets))
	var wg sync.WaitGroup
	for i, socket := range j.sockets {
		wg.Go(func() { parts[i] = (&Place{Addr: socket}).waits(ctx) })
	}
	wg.Wait()
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

var (
	stalls      = gauge("psrt_stalls", "Waits of this rank that have lasted --stall-after or longer; psrt status says for whom and why.")
	stallOldest = gauge("psrt_stall_oldest_seconds", "The longest of them; 0 where there is none.")
)

type stallCollector struct{ watch *stall.Watch }

// Describe has nothing to say, as the others.
func (stallCollector) Describe(chan<- *prometheus.Desc) {}

func (c stallCollector) Collect(ch chan<- prometheus.Metric) {
	n, oldest := c.watch.Count(context.Background())
	sink(ch).put(stalls, float64(n))
	sink(ch).put(stallOldest, oldest.Seconds())
}

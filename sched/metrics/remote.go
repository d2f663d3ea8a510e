package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"psrt/rdma/secure"
)

const (
	// rankWithin is how long a scrape waits for a rank.
	rankWithin = time.Second
	// maxAnswer bounds what a rank may answer: some 100 000 series.
	maxAnswer = 64 << 20
)

// Place is where a rank shows itself: at HOST:PORT or the path of a unix socket, in
// plain HTTP or, with the job's token, in a connection that both ends have proved.
type Place struct {
	Name  string // for people
	Addr  string
	Token []byte
}

func (p *Place) dial(ctx context.Context) (net.Conn, error) {
	network := "tcp"
	if strings.ContainsRune(p.Addr, '/') {
		network = "unix"
	}
	if p.Token != nil {
		return secure.Dial(ctx, network, p.Addr, p.Token)
	}
	return new(net.Dialer).DialContext(ctx, network, p.Addr)
}

// Get asks for one page, within a time; read takes it.
func (p *Place) Get(ctx context.Context, path, accept string, within time.Duration, read func(io.Reader, http.Header) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) }}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://rank"+path, nil)
	if err != nil {
		return err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics: %s answers %s", p.Addr, resp.Status)
	}
	return read(io.LimitReader(resp.Body, maxAnswer), resp.Header)
}

// Fetch asks an endpoint, at HOST:PORT or the path of a unix socket, for what it
// shows.
func Fetch(ctx context.Context, endpoint string) ([]*dto.MetricFamily, error) {
	return (&Place{Addr: endpoint}).figures(ctx)
}

func (p *Place) figures(ctx context.Context) (all []*dto.MetricFamily, err error) {
	err = p.Get(ctx, "/metrics", string(expfmt.NewFormat(expfmt.TypeProtoDelim)), rankWithin, func(r io.Reader, h http.Header) (err error) {
		all, err = decode(r, expfmt.ResponseFormat(h))
		return err
	})
	return all, err
}

func decode(r io.Reader, format expfmt.Format) (all []*dto.MetricFamily, err error) {
	d := expfmt.NewDecoder(r, format)
	for {
		f := &dto.MetricFamily{}
		switch err := d.Decode(f); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("metrics: what a rank answered is not understood: %w", err)
		}
		all = append(all, f)
	}
}

// Job is all ranks of a job on this machine as one Gatherer.
type Job struct {
	own     *Rank
	sockets []string
	missing prometheus.Gauge
}

// NewJob shows own and the ranks whose endpoints are, or will be, on the unix
// sockets.
func NewJob(own *Rank, sockets []string) *Job {
	j := &Job{own: own, sockets: sockets, missing: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "psrt_ranks_missing", Help: "Ranks that did not answer this scrape: not begun yet, ended, or too busy."})}
	own.show(j.missing)
	return j
}

// Gather asks all at once. A rank that does not answer is missing, not an
// error.
func (j *Job) Gather() ([]*dto.MetricFamily, error) {
	parts := make([][]*dto.MetricFamily, len(j.sockets))
	var wg sync.WaitGroup
	for i, socket := range j.sockets {
		wg.Go(func() { parts[i], _ = Fetch(context.Background(), socket) })
	}
	wg.Wait()
	all := prometheus.Gatherers{}
	missing := 0
	for _, p := range parts {
		if p == nil {
			missing++
			continue
		}
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return p, nil }))
	}
	j.missing.Set(float64(missing))
	return append(all, j.own.registry).Gather()
}

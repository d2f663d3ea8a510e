package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Paths that orchestrators probe: healthPath answers 200 while the process answers at all,
// readyPath 200 while it does its work and 503 with the reason otherwise.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// readier is a Gatherer that knows whether work is done.
type readier interface {
	// Ready is nil, or why not.
	Ready(ctx context.Context) error
}

// readiness is why ranks of one process are not ready; it is theirs together.
type readiness struct {
	mu   sync.Mutex
	why  map[*Rank]string // those that are named: "" is ready
	open atomic.Bool      // a rank has said more than its name
}

func (r *readiness) set(rank *Rank, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why[rank] = why
}

func (r *readiness) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.why) == 0 {
		return errors.New("it is starting")
	}
	for _, why := range r.why {
		if why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// Ready says that the rank does its work: a server answers, a worker trains.
func (r *Rank) Ready() {
	if r != nil {
		r.ready.open.Store(true)
		r.ready.set(r, "")
	}
}

// NotReady says why the rank does not do its work, any more or yet.
func (r *Rank) NotReady(why string) {
	if r != nil {
		r.ready.open.Store(true)
		r.ready.set(r, why)
	}
}

// Ready implements readier.
func (s shown) Ready(context.Context) error { return s.r.ready.err() }

// Ready implements readier: as the launcher's own rank says, where it says anything, else as
// all ranks do.
func (j *Job) Ready(ctx context.Context) error {
	if j.own.ready.open.Load() {
		return j.own.ready.err()
	}
	why := make([]error, len(j.sockets))
	var wg sync.WaitGroup
	for i, socket := range j.sockets {
		wg.Go(func() {
			why[i] = (&Place{Addr: socket}).Get(ctx, readyPath, "", rankWithin, func(io.Reader, http.Header) error { return nil })
		})
	}
	wg.Wait()
	n := 0
	for _, err := range why {
		if err != nil {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%d of %d ranks are not ready", n, len(why))
	}
	return nil
}

func serveHealth(mux *http.ServeMux, g any) {
	answer := func(w http.ResponseWriter, err error) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, strings.ReplaceAll(err.Error(), "\n", " "))
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	}
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET "+readyPath, func(w http.ResponseWriter, r *http.Request) {
		var err error
		if who, ok := g.(readier); ok {
			ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
			defer cancel()
			err = who.Ready(ctx)
		}
		answer(w, err)
	})
}

// Saves shows checkpoints of psrt train, or saves of psrt serve. Safe for concurrent use.
type Saves struct {
	mu              sync.Mutex
	newest          time.Time
	written, failed float64
}

// Note counts one that was written, or failed.
func (s *Saves) Note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed++
		return
	}
	s.newest = time.Now()
	s.written++
}

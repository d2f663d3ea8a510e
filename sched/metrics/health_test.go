package metrics

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// probe is what an endpoint answers.
func probe(t *testing.T, e *Endpoint, path string) (code int, text string) {
	t.Helper()
	resp, err := http.Get("http://" + e.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A process is healthy while it answers, and ready while all of its ranks are.
func TestHealth(t *testing.T) {
	r := NewRank()
	e := serve(t, "127.0.0.1:0", r)
	expect := func(when string, ready int) {
		t.Helper()
		if code, _ := probe(t, e, "/healthz"); code != 200 {
			t.Errorf("%s: it answers %d to whether it lives", when, code)
		}
		if code, text := probe(t, e, "/readyz"); code != ready || text == "" {
			t.Errorf("%s: it answers %d, %q, want %d", when, code, text, ready)
		}
	}
	expect("without a name", 503)
	r.Name("server 0")
	expect("with a name", 503)
	worker := r.Beside()
	worker.Name("worker 0")
	r.Ready()
	expect("with one of two ranks ready", 503)
	worker.Ready()
	expect("with both ready", 200)
	r.NotReady("it is ending")
	expect("at the end", 503)
	if _, text := probe(t, e, "/readyz"); text != "it is ending\n" {
		t.Errorf("it says %q", text)
	}
	var none *Rank // shows nothing
	none.Ready()
	none.NotReady("x")
}

// A job is ready when all ranks are; or when its launcher's rank says so, where that says
// anything.
func TestHealthOfAJob(t *testing.T) {
	dir := t.TempDir()
	ranks, sockets := []*Rank{NewRank(), NewRank()}, []string{filepath.Join(dir, "0"), filepath.Join(dir, "1")}
	own := NewRank()
	own.Name("launcher")
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	e.Serve(NewJob(own, sockets))
	expect := func(when string, want int) {
		t.Helper()
		code, text := 0, ""
		for range 20 { // a rank that has no core for a second is not ready, rightly
			if code, text = probe(t, e, "/readyz"); code == want {
				return
			}
		}
		t.Errorf("%s: it answers %d, %q, want %d", when, code, text, want)
	}
	expect("with no rank", 503)
	for i, r := range ranks {
		r.Name("worker " + string(rune('0'+i)))
		serve(t, "unix:"+sockets[i], r)
	}
	ranks[0].Ready()
	expect("with one of two", 503)
	ranks[1].Ready()
	expect("with both", 200)
	own.NotReady("the servers are starting")
	expect("the launcher says no", 503)
	own.Ready()
	ranks[0].NotReady("it starts again")
	expect("the launcher says yes", 200)
}

// Checkpoints count, and are as old as the newest that was written.
func TestSaves(t *testing.T) {
	r := NewRank()
	r.Name("worker 0")
	s := r.Saves()
	if r.Saves() != s || r.Training() != r.Training() {
		t.Error("they are shown twice")
	}
	s.newest = s.newest.Add(-100 * time.Second)
	value := func(name string) float64 {
		t.Helper()
		f, err := r.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		return total(gathered(t, f, name))
	}
	if age := value("psrt_checkpoint_age_seconds"); age < 100 {
		t.Errorf("the age is %g before the first", age)
	}
	s.Note(errors.New("no room"))
	if age := value("psrt_checkpoint_age_seconds"); age < 100 {
		t.Errorf("the age is %g after one that failed", age)
	}
	s.Note(nil)
	if age, n, bad := value("psrt_checkpoint_age_seconds"), value("psrt_checkpoints_written_total"), value("psrt_checkpoints_failed_total"); age >= 100 || n != 1 || bad != 1 {
		t.Errorf("age %g, %g written, %g failed", age, n, bad)
	}
	var none *Rank
	none.Saves().Note(nil)
	none.Training().Rate("sparse", 1)
}

package audit

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkStep is what a record costs a worker for a step of 20000 rows of 17
// floats: two looks at the keys, and what is sampled.
func BenchmarkStep(b *testing.B) {
	const n, dim = 20_000, 17
	w, err := NewWorker(WorkerConfig{Config: Config{Dir: b.TempDir(), Rate: DefaultRate, Limit: DefaultLimit, Run: "r"}})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	keys, rows := make([]uint64, n), make([]float32, n*dim)
	for i := range keys {
		keys[i] = rng.Uint64()
	}
	seq := uint64(0)
	for b.Loop() {
		seq++
		call := w.Ask(1, seq, Creates)
		w.Seen(Pull{Call: call, Table: 1, Clock: seq}, keys, rows, dim)
		w.Send(Pushed{Table: 1, Seq: seq, Clock: seq}, keys, rows, dim)
		w.Done(Pushed{Table: 1, Seq: seq, Clock: seq}, 0, seq, 0)
	}
	b.ReportMetric(float64(w.w.pos)/float64(seq), "bytes/step")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

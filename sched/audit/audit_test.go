package audit

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

func config(t *testing.T, rate float64, limit int64) Config {
	t.Helper()
	c := Config{Dir: t.TempDir(), Rate: rate, Limit: limit, Run: NewRun(time.Unix(0, 0))}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// only is the one file in a directory.
func only(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+Ext))
	if err != nil || len(names) != 1 {
		t.Fatalf("%d files in %s, %v, want 1", len(names), dir, err)
	}
	return names[0]
}

// read is all records of a file behind its head.
func read(t *testing.T, path string) (all []Record, r *Reader) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for {
		var rec, again Record
		at, err := r.Next(&rec)
		if err == io.EOF {
			return all, r
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := r.ReadAt(at, &again); err != nil || !same(&rec, &again) {
			t.Fatalf("record at %d, read again: %v, %+v and %+v", at, err, rec, again)
		}
		all = append(all, rec)
	}
}

func same(a, b *Record) bool {
	return bytes.Equal(a.encode(nil), b.encode(nil))
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := config(t, 1, DefaultLimit)
	w, err := NewWorker(WorkerConfig{Config: cfg, Worker: 3, Client: 77, Kept: 2, Blocks: []DenseBlock{{0, 40, 1}, {40, 5, 0}, {45, 20, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	const dim = 7
	vector := make([]float32, 65)
	for i := range vector {
		vector[i] = rng.Float32()
	}
	var want []Kind
	rows, dense := 0, 0
	for step := range uint64(300) { // several pieces of the file
		keys := make([]uint64, rng.IntN(400))
		values := make([]float32, len(keys)*dim)
		for i := range keys {
			keys[i] = rng.Uint64()
		}
		call := w.Ask(1, step, Creates)
		w.Seen(Pull{Call: call, Lane: 2, Table: 1, Clock: step, Version: step * 2, Flags: Creates}, keys, values, dim)
		w.SeenDense(Pull{Call: call, Lane: 1}, vector)
		w.Kept(Pull{Call: call, Lane: 2, Table: 1, Clock: step, Version: step}, step/2, 9, vector[:dim])
		p := Pushed{Lane: 1, Table: DenseTable, Seq: step + 1, Clock: step}
		w.SendDense(p, vector)
		p.Lane, p.Table = 2, 1
		w.Send(p, keys, values, dim)
		w.Done(p, 0, step*2+1, 5)
		rows += len(keys)
		dense += 2
		want = append(want, Ask, Seen, Seen, Kept, Send, Send, Done)
	}
	if got := len(w.Keys()); got != rows {
		t.Errorf("%d keys to look at, want %d", got, rows)
	}
	if err := errors.Join(w.Err(), w.Close(), w.Close()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed twice: %v", err)
	}
	got, r := read(t, only(t, cfg.Dir))
	if r.Torn() != nil || r.Header.Worker == nil || *r.Header.Worker != (WorkerHeader{Worker: 3, Client: 77, Kept: 2}) || r.Header.Run != cfg.Run {
		t.Errorf("head %+v, torn %v", r.Header, r.Torn())
	}
	want = append(want, End)
	var kinds []Kind
	for _, rec := range got {
		kinds = append(kinds, rec.Kind)
		switch {
		case rec.Kind == Send && rec.Table == 1, rec.Kind == Seen && rec.Table == 1:
			rows -= len(rec.Keys)
		case rec.Kind == Kept:
			if rec.Since != rec.Clock/2 || rec.Hashes[0] != Hash(vector[:dim]) {
				t.Fatalf("kept: %+v", rec)
			}
		case rec.Kind == Seen:
			dense -= len(rec.Keys)
			at := Places(40, 1)
			if rec.Hashes[0] != Hash(pick(nil, vector[:40], at)) {
				t.Fatal("a dense block's hash is not that of its sampled elements")
			}
		}
	}
	if !slices.Equal(kinds, want) || dense != 0 {
		t.Errorf("%d records, want %d; %d blocks missing", len(kinds), len(want), dense)
	}
	if st, err := os.Stat(r.Path()); err != nil || st.Size() >= 3<<20 && st.Size()%windowBytes == 0 {
		t.Errorf("the file keeps room that it does not need: %v bytes, %v", st.Size(), err)
	}
}

// A row wider than the others must not be cut, and no record is too long.
func TestLongListsAreCut(t *testing.T) {
	cfg := config(t, 1, DefaultLimit)
	w, err := NewWorker(WorkerConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	const n, dim = 100_000, 3
	keys, values := make([]uint64, n), make([]float32, n*dim)
	for i := range keys {
		keys[i] = uint64(i)
	}
	w.Send(Pushed{Seq: 1}, keys, values, dim)
	w.Seen(Pull{Call: 1}, keys, values, dim)
	if err := errors.Join(w.Err(), w.Close()); err != nil {
		t.Fatal(err)
	}
	sum := map[Kind]int{}
	all, _ := read(t, only(t, cfg.Dir))
	for _, rec := range all {
		sum[rec.Kind] += len(rec.Keys)
	}
	if sum[Send] != n || sum[Seen] != n {
		t.Errorf("%v keys, want %d of each", sum, n)
	}
}

func TestLaneFile(t *testing.T) {
	cfg := config(t, 1, DefaultLimit)
	spec := table.Spec{Name: "a", ID: 1, Dim: 2}
	h := LaneHeader{Lane: 4, Workers: 2, Staleness: -1, Seed: 9, Tables: []table.Spec{spec}, Dense: Dense{Blocks: []Block{cfg.NewBlock(6, "grad", []float32{1, 2, 3})}}}
	l, err := NewLane(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	l.Begin()
	l.Took(1, 0, 0) // of nothing
	const n = 40_000
	for i := range n {
		l.Add(Push{Worker: 1, Client: 2, Seq: uint64(i), Clock: 3})
	}
	l.Took(1, n, 0)
	l.Emptied(1, n)
	l.Loaded(1, n, []uint64{5, 6}, []float32{1, 2, 3, 4}, 2)
	l.LoadedBlock(6, n, []float32{1, 2, 3}, []float32{4, 5, 6, 7})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all, r := read(t, only(t, cfg.Dir))
	if !reflect.DeepEqual(*r.Header.Lane, h) {
		t.Errorf("head %+v, want %+v", *r.Header.Lane, h)
	}
	pushes := 0
	for _, rec := range all {
		pushes += len(rec.Pushes)
	}
	if last := all[len(all)-2]; pushes != n || !slices.Equal(last.Floats, []float32{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("%d pushes, want %d; a block %v", pushes, n, last.Floats)
	}
}

func TestTheStateOfALoadedBlockIsSampled(t *testing.T) {
	cfg := config(t, 0.001, DefaultLimit)
	l, err := NewLane(cfg, LaneHeader{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	values, state := make([]float32, n), make([]float32, 2*n+2) // as Adam's
	for i := range values {
		values[i], state[i], state[n+i] = float32(i), float32(n+i), float32(2*n+i)
	}
	state[2*n], state[2*n+1] = -1, -2
	l.LoadedBlock(0, 0, values, state)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all, _ := read(t, only(t, cfg.Dir))
	got, at := all[0].Floats, Places(n, cfg.Rate)
	if len(at) != leastPlaces || len(got) != 3*len(at)+2 {
		t.Fatalf("%d floats for %d places", len(got), len(at))
	}
	for i, p := range at {
		if got[i] != float32(p) || got[len(at)+i] != float32(n+p) || got[2*len(at)+i] != float32(2*n+p) {
			t.Errorf("place %d: %v %v %v", p, got[i], got[len(at)+i], got[2*len(at)+i])
		}
	}
	if !slices.Equal(got[3*len(at):], []float32{-1, -2}) {
		t.Errorf("%v behind, want -1, -2", got[3*len(at):])
	}
}

func TestLimit(t *testing.T) {
	cfg := config(t, 1, leastLimit)
	w, err := NewWorker(WorkerConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	keys, values := make([]uint64, 1000), make([]float32, 1000)
	for i := range uint64(1000) {
		w.Send(Pushed{Seq: i}, keys, values, 1)
	}
	if w.Err() == nil || !strings.Contains(w.Err().Error(), "limit") {
		t.Errorf("%v, want the limit named", w.Err())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	all, r := read(t, only(t, cfg.Dir))
	if last := all[len(all)-1]; last.Kind != End || last.Code != Full || r.at > cfg.Limit {
		t.Errorf("%d records in %d bytes, last %+v", len(all), r.at, last)
	}
	if len(all) < 60 {
		t.Errorf("only %d records in %d bytes", len(all), cfg.Limit)
	}
}

// Whatever is at the end of a file, what is before it is read.
func TestTornFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.Seed(t), 2))
	cfg := config(t, 1, DefaultLimit)
	w, err := NewWorker(WorkerConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(50) {
		w.Ask(1, i, 0)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := only(t, cfg.Dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, r := read(t, path)
	_ = r
	head := len(whole) - 51*(recordHead+fixedBytes)
	for range 200 {
		b := slices.Clone(whole)
		at := head + rng.IntN(len(b)-head)
		switch rng.IntN(3) {
		case 0:
			b = b[:at]
		case 1:
			b[at] ^= 1 << rng.IntN(8)
		default:
			clear(b[at:])
		}
		r, err := newReader(bytes.NewReader(b), "it")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			var rec Record
			if _, err := r.Next(&rec); err != nil {
				break
			}
			if n >= len(all) || !same(&rec, &all[n]) {
				t.Fatalf("record %d is %+v", n, rec)
			}
		}
		if want := (at - head) / (recordHead + fixedBytes); n < want {
			t.Fatalf("%d records before a fault at %d, want %d", n, at, want)
		}
	}
}

func TestSampleIsEven(t *testing.T) {
	s, err := NewSample(DefaultRate)
	if err != nil {
		t.Fatal(err)
	}
	const n = 1 << 20
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if got := len(s.Find(keys, nil)); got < n/256*8/10 || got > n/256*12/10 {
		t.Errorf("%d of %d keys in a row, want about %d", got, n, n/256)
	}
	for _, bad := range []float64{0, -1, 1.5} {
		if _, err := NewSample(bad); err == nil {
			t.Errorf("a share of %v is taken", bad)
		}
	}
	if all, _ := NewSample(1); !all.Has(^uint64(0)/spread) || len(all.Find(keys, nil)) != n {
		t.Error("a share of 1 is not all")
	}
}

// A nil recorder costs nothing and does nothing.
func TestNil(t *testing.T) {
	var w *Worker
	w.Send(Pushed{}, nil, nil, 1)
	w.SendDense(Pushed{}, nil)
	w.Seen(Pull{}, nil, nil, 1)
	w.SeenDense(Pull{}, nil)
	w.Done(Pushed{}, 0, 0, 0)
	var l *Lane
	l.Begin()
	l.Add(Push{})
	l.Took(1, 1, 0)
	l.Emptied(1, 1)
	l.Loaded(1, 1, []uint64{1}, []float32{1}, 1)
	l.LoadedBlock(1, 1, []float32{1}, nil)
	if w.Ask(1, 1, 0) != 0 || w.Keys() != nil || errors.Join(w.Err(), w.Close(), l.Err(), l.Close()) != nil {
		t.Error("a recorder that is not there did something")
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Dir: "a", Rate: 0.1, Limit: DefaultLimit, Run: "r"}
	for _, f := range []func(*Config){
		func(c *Config) { c.Dir = "" }, func(c *Config) { c.Rate = 2 }, func(c *Config) { c.Limit = 100 }, func(c *Config) { c.Run = "../r" }, func(c *Config) { c.Run = "" },
	} {
		c := good
		if f(&c); c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := (*Config)(nil).Validate(); err != nil || good.Validate() != nil {
		t.Error("a good one is not taken", err)
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range []Record{
		{Kind: Ask, Call: 1}, {Kind: Seen, Keys: []uint64{1, 2}, Hashes: []uint64{3, 4}}, {Kind: Send, Width: 2, Keys: []uint64{1}, Floats: []float32{1, 2}},
		{Kind: Take, Pushes: []Push{{1, 2, 3, 4}}}, {Kind: Load, Width: 1, Keys: []uint64{9}, Floats: []float32{1}}, {Kind: Head, Text: []byte("{}")}, {Kind: End},
	} {
		f.Add(r.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Record
		if r.Decode(b) != nil {
			return
		}
		out := r.encode(nil)
		if err := again.Decode(out); err != nil || !same(&r, &again) {
			t.Errorf("%+v is read again as %+v: %v", r, again, err)
		}
	})
}

func FuzzFile(f *testing.F) {
	dir := f.TempDir()
	cfg := Config{Dir: dir, Rate: 1, Limit: DefaultLimit, Run: "r"}
	l, err := NewLane(cfg, LaneHeader{Workers: 1, Dense: Dense{Blocks: []Block{cfg.NewBlock(0, "grad", []float32{1})}}})
	if err != nil {
		f.Fatal(err)
	}
	l.Emptied(1, 1)
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	b, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := newReader(bytes.NewReader(b), "it")
		if err != nil {
			return
		}
		for n := 0; ; n++ {
			var rec Record
			if _, err := r.Next(&rec); err != nil {
				return
			}
			if n > len(b)/fixedBytes {
				t.Fatal("more records than there is room for")
			}
		}
	})
}

// A record that cannot be created gives no lane: closing it is what a server's lane does next.
func TestNoPlaceForARecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := NewLane(Config{Dir: dir, Rate: 1}, LaneHeader{})
	if l != nil || err == nil {
		t.Fatalf("lane %v, error %v", l, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

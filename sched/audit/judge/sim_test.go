package judge

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/audit"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// sim is workers and one lane without a network: it shares nothing with the server,
// and can do any one thing wrong.
type sim struct {
	t         *testing.T
	rng       *rand.Rand
	staleness int
	cfg       audit.Config
	spec      table.Spec
	merges    []tree.Merge
	workers   []*simWorker
	lanes     []*audit.Lane // replicas: all do the same
	fault     string
	at        int // of the fault's chances, the one that is taken
	done      bool
	open      bool // clients come back under other numbers
	chained   bool // in bsp who completes a step is told its version, the others before that it counts
	stopAt    int  // the run ends behind so many pushes, without a last look (0: at its end)
	killed    bool // and no record is closed

	rows    map[uint64][]float32
	version uint64
	held    []held                          // bsp
	last    audit.Push                      // that came
	past    map[uint64]map[uint64][]float32 // by version, as it was
}

type simWorker struct {
	rec    *audit.Worker
	id     int
	number int // at the lane
	step   uint64
	seq    uint64
	pulled bool
	keys   []uint64
	seen   uint64 // newest version
	acked  uint64 // newest version with a push of its own
	late   uint64 // a call that is not answered yet
}

type held struct {
	w     *simWorker
	push  audit.Push
	keys  []uint64
	grads []float32
}

const simDim, simKeys = 4, 6

func newSim(t *testing.T, seed uint64, workers, staleness int, fault string) *sim {
	t.Helper()
	s := newSimOf(t, seed, workers, staleness, fault)
	s.replica()
	return s
}

// newSimOf has no lane yet.
func newSimOf(t *testing.T, seed uint64, workers, staleness int, fault string) *sim {
	t.Helper()
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 3)), staleness: staleness, fault: fault, rows: map[uint64][]float32{}, past: map[uint64]map[uint64][]float32{},
		spec: table.Spec{Name: "a", ID: 1, Dim: simDim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}},
		cfg:  audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Unix(0, 0))}}
	if s.at = s.rng.IntN(4); fault == "straight" { // there are few
		s.at = 0
	}
	shares, err := tree.Shares(8, workers)
	must(t, err)
	s.merges, err = tree.Top(shares)
	must(t, err)
	for i := range workers {
		w := &simWorker{id: i, number: i}
		w.rec, err = audit.NewWorker(audit.WorkerConfig{Config: s.cfg, Worker: i, Client: uint64(100 + i)})
		must(t, err)
		s.workers = append(s.workers, w)
	}
	s.past[0] = map[uint64][]float32{}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *sim) replica() {
	l, err := audit.NewLane(s.cfg, audit.LaneHeader{Server: len(s.lanes), Open: s.open, Workers: len(s.workers), Staleness: s.staleness, Merges: s.merges, Tables: []table.Spec{s.spec}})
	must(s.t, err)
	s.lanes = append(s.lanes, l)
}

// errs says whether the one wrong thing is done now, where it could be.
func (s *sim) errs(fault string) bool {
	if s.fault != fault || s.done {
		return false
	}
	s.at--
	s.done = s.at < 0
	return s.done
}

func (s *sim) slowest() uint64 {
	low := s.workers[0].step
	for _, w := range s.workers {
		low = min(low, w.step)
	}
	return low
}

func (s *sim) mayPull(w *simWorker) bool {
	return s.staleness < 0 || w.step <= s.slowest()+uint64(s.staleness)
}

func (s *sim) run(steps uint64) {
	for pushed := 0; ; {
		var can []*simWorker
		for _, w := range s.workers {
			switch {
			case w.step >= steps:
			case w.pulled || s.mayPull(w):
				can = append(can, w)
			case s.errs("early"):
				s.pull(w)
			}
		}
		if len(can) == 0 {
			break
		}
		if w := can[s.rng.IntN(len(can))]; w.pulled && (w.late != 0 || s.rng.IntN(4) > 0) {
			if s.push(w); s.stopAt > 0 && pushed+1 == s.stopAt {
				s.stop()
				return
			}
			pushed++
		} else {
			s.pull(w)
		}
	}
	for _, w := range s.workers { // a last look
		w.keys = []uint64{0, 1, 2, 3, 4, 5}
		s.answer(w, w.rec.Ask(1, w.step, audit.AnyClock), audit.AnyClock)
		must(s.t, w.rec.Close())
	}
	for _, l := range s.lanes {
		must(s.t, l.Close())
	}
}

// stop ends all records where they are: closed by who was interrupted, and as they are
// where somebody was killed.
func (s *sim) stop() {
	if s.killed {
		return
	}
	for _, w := range s.workers {
		must(s.t, w.rec.Close())
	}
	for _, l := range s.lanes {
		must(s.t, l.Close())
	}
}

func (s *sim) pull(w *simWorker) {
	w.keys = w.keys[:0]
	for k := range uint64(simKeys) {
		if s.rng.IntN(2) == 0 || k < 2 {
			w.keys = append(w.keys, k)
		}
	}
	call := w.rec.Ask(1, w.step, audit.Creates)
	w.pulled = true
	if s.fault == "late" && s.staleness == 0 && s.errs("late") {
		w.late = call
		return
	}
	s.answer(w, call, audit.Creates)
}

// answer gives a worker the values of now, but where it errs.
func (s *sim) answer(w *simWorker, call uint64, flags audit.Flags) {
	version, rows := s.version, s.rows
	look := flags&audit.AnyClock != 0
	old := version
	switch {
	case look:
	case w.acked > 0 && s.errs("forgotten"):
		old = w.acked - 1
	case w.seen > 0 && w.seen > w.acked && s.errs("backward"):
		old = w.seen - 1
	}
	for ; old < version; old-- { // one that there was
		if r, ok := s.past[old]; ok {
			version, rows = old, r
			break
		}
	}
	values := make([]float32, 0, len(w.keys)*simDim)
	for _, k := range w.keys {
		row := make([]float32, simDim)
		copy(row, rows[k])
		values = append(values, row...)
	}
	if len(w.keys) > 1 && !slices.Equal(values[:simDim], values[simDim:2*simDim]) && s.errs("swapped") {
		for i := range simDim {
			values[i], values[simDim+i] = values[simDim+i], values[i]
		}
	}
	if before := s.before(w.keys[0]); before != nil && before[0] != values[0] && before[2] != values[2] && s.errs("torn") {
		copy(values[:2], before[:2])
	}
	if before := s.before(w.keys[0]); before != nil && before[0] != values[0] && s.errs("stale") {
		copy(values, before)
	}
	said := version
	if s.errs("unknown") {
		said += 1000
	}
	w.rec.Seen(audit.Pull{Call: call, Table: 1, Clock: w.step, Version: said, Flags: flags}, w.keys, values, simDim)
	w.seen = max(w.seen, version)
}

// before is a row before it changed last.
func (s *sim) before(key uint64) []float32 {
	for _, v := range slices.Backward(slices.Sorted(maps.Keys(s.past))) {
		if r := s.past[v][key]; r != nil && !slices.Equal(r, s.rows[key]) {
			return r
		}
	}
	return nil
}

// renumber gives all clients other numbers, as if they had been away for long.
func (s *sim) renumber() {
	first := s.workers[0].number
	for i, w := range s.workers[:len(s.workers)-1] {
		w.number = s.workers[i+1].number
	}
	s.workers[len(s.workers)-1].number = first
}

func (s *sim) push(w *simWorker) {
	if s.open && len(s.held) == 0 && s.rng.IntN(3) == 0 {
		s.renumber()
	}
	h := held{w: w, keys: slices.Clone(w.keys)}
	for range len(w.keys) * simDim {
		h.grads = append(h.grads, float32(s.rng.NormFloat64()*math.Exp2(float64(s.rng.IntN(12)))))
	}
	w.seq++
	h.push = audit.Push{Worker: uint32(w.number), Client: uint64(100 + w.id), Seq: w.seq, Clock: w.step}
	w.rec.Send(audit.Pushed{Table: 1, Seq: w.seq, Clock: w.step, Flags: audit.Tick}, h.keys, h.grads, simDim)
	w.step++
	w.pulled = false
	if s.staleness != 0 {
		s.take(h)
		return
	}
	s.held, s.last = append(s.held, h), h.push
	if len(s.held) < len(s.workers) {
		if s.chained {
			w.rec.Done(audit.Pushed{Table: 1, Seq: h.push.Seq, Clock: h.push.Clock}, 0, 0, 0)
		}
		return
	}
	group := s.held
	s.held = nil
	slices.SortFunc(group, func(a, b held) int { return a.w.number - b.w.number })
	switch {
	case s.errs("partial"):
		s.take(group[0])
		s.take(group[1:]...)
	case s.errs("order"):
		group[0], group[1] = group[1], group[0]
		s.take(group...)
	default:
		s.take(group...)
	}
	for _, w := range s.workers {
		if w.late != 0 {
			w.step-- // it asked before
			s.answer(w, w.late, audit.Creates)
			w.late = 0
			w.step++
		}
	}
}

// take applies pushes as one version, and acknowledges them.
func (s *sim) take(group ...held) {
	s.past[s.version] = maps.Clone(s.rows)
	all := slices.Clone(group)
	if s.errs("lost") {
		group = group[1:]
	}
	applied := slices.Clone(group)
	switch {
	case len(applied) > 0 && s.errs("silently lost"):
		applied = applied[1:]
	case len(applied) > 0 && s.errs("silently doubled"):
		applied = append(applied, applied[0])
	}
	s.apply(applied, false)
	if len(group) > 3 && s.fault == "straight" {
		right := s.rows
		s.rows = maps.Clone(s.past[s.version])
		s.apply(applied, true)
		if maps.EqualFunc(right, s.rows, slices.Equal[[]float32]) || !s.errs("straight") { // it may make no difference
			s.rows = right
		}
	}
	again := len(group) > 0 && s.errs("doubled")
	for range map[bool]int{false: 1, true: 2}[again] {
		s.version += uint64(len(group))
		for i, l := range s.lanes {
			l.Begin()
			for _, h := range group {
				p := h.push
				if i == 0 && s.errs("invented") {
					p.Seq += 1000
				}
				if i > 0 && s.errs("unequal") {
					p.Clock++
				}
				l.Add(p)
			}
			l.Took(1, s.version, 0)
		}
	}
	if again {
		s.apply(applied, false)
	}
	for _, h := range all {
		h.w.acked = s.version
		if s.chained && h.push != s.last {
			continue
		}
		h.w.rec.Done(audit.Pushed{Table: 1, Seq: h.push.Seq, Clock: h.push.Clock}, 0, s.version, 0)
	}
	s.past[s.version] = maps.Clone(s.rows)
}

// apply subtracts the sum, along the tree in bsp.
func (s *sim) apply(group []held, straight bool) {
	for k := range uint64(simKeys) {
		by := make([][]float32, len(s.workers))
		var last []float32
		for _, h := range group {
			i := slices.Index(h.keys, k)
			if i < 0 {
				continue
			}
			g := h.grads[i*simDim : (i+1)*simDim]
			last = simAdd(last, g)
			by[h.w.number] = simAdd(by[h.w.number], g)
		}
		if s.staleness == 0 && !straight {
			for _, m := range s.merges {
				by[m.Dst] = simAdd(by[m.Dst], by[m.Src])
			}
			last = by[0]
		}
		if last == nil {
			continue
		}
		row := make([]float32, simDim)
		copy(row, s.rows[k])
		for i := range row {
			row[i] -= last[i]
		}
		s.rows[k] = row
	}
}

func simAdd(a, b []float32) []float32 {
	if a == nil || b == nil {
		return append(slices.Clone(a), b...)
	}
	c := slices.Clone(a)
	for i := range c {
		c[i] += b[i]
	}
	return c
}

func (s *sim) judge(opt Options) *Run {
	s.t.Helper()
	rep, err := Dir(s.t.Context(), s.cfg.Dir, opt)
	must(s.t, err)
	return rep.Runs[0]
}

// Each fault, at some moment, in each mode in which it is one, is found as what it
// is; and without one nothing is found.
func TestFaultsAreNamed(t *testing.T) {
	seed := seedtest.Seed(t)
	seeds := 2
	if testing.Short() {
		seeds = 1
	}
	every := []int{0, 2, -1}
	for _, c := range []struct {
		fault string
		modes []int
		kinds []string // one of them is found
	}{
		{"", every, nil},
		{"lost", every, []string{Lost}},
		{"doubled", every, []string{Doubled}},
		{"invented", every, []string{Invented}},
		{"unequal", every, []string{Unequal}},
		{"early", []int{0, 2}, []string{TooEarly}},
		{"late", []int{0}, []string{TooNew, TooEarly}},
		{"forgotten", []int{-1}, []string{Forgotten}},
		{"backward", []int{-1}, []string{Backward, Forgotten}},
		{"unknown", every, []string{NoVersion, Backward}},
		{"partial", []int{0}, []string{Partial}},
		{"order", []int{0}, []string{Partial}},
		{"straight", []int{0}, []string{Value}},
		{"silently lost", every, []string{Value}},
		{"silently doubled", every, []string{Value}},
		{"stale", every, []string{Value}},
		{"torn", every, []string{Value}},
		{"swapped", every, []string{Value}},
	} {
		for _, mode := range c.modes {
			t.Run(c.fault+" "+ModeOf(mode), func(t *testing.T) {
				for i := range uint64(seeds) {
					// In a few of hundreds of runs the moment for a fault never comes.
					var s *sim
					for at := seed + i; s == nil || c.fault != "" && !s.done && at < seed+8000; at += 1000 {
						s = newSim(t, at, 4, mode, c.fault)
						if c.fault == "unequal" || c.fault == "" {
							s.replica()
						}
						s.run(12)
					}
					run := s.judge(Options{})
					if c.fault == "" {
						if !run.Consistent || len(run.Notes) > 0 || run.Pushes != 48 || run.Pulls < 52 || run.Unjudged > 0 {
							t.Fatalf("seed %d: %+v %v", seed+i, *run, run.Violations)
						}
						continue
					}
					if !s.done {
						t.Fatalf("seed %d: nothing was done wrong", seed+i)
					}
					if run.Consistent || !slices.ContainsFunc(run.Violations, func(v *Violation) bool { return slices.Contains(c.kinds, v.Kind) }) {
						t.Fatalf("seed %d: %+v: %v, want %v", seed+i, *run, run.Violations, c.kinds)
					}
				}
			})
		}
	}
}

// Replicas of a bsp lane acknowledge a push when all of them have it, which is before its
// step is whole: wherever the run ends, by a signal or by death, nothing of the step that
// never became whole is lost. What is missing of one that did is.
func TestAcknowledgedBeforeItsStep(t *testing.T) {
	seed := seedtest.Seed(t)
	const workers = 4
	for stopAt := 1; stopAt <= 3*workers; stopAt++ {
		for _, killed := range []bool{false, true} {
			s := newSim(t, seed, workers, 0, "")
			s.replica()
			s.chained, s.stopAt, s.killed = true, stopAt, killed
			s.run(12)
			held := stopAt % workers
			if run := s.judge(Options{}); !run.Consistent || run.Unjudged != held || run.Pushes != stopAt-held {
				t.Errorf("seed %d, ends (killed: %v) behind %d pushes: %+v %v", seed, killed, stopAt, *run, run.Violations)
			}
		}
	}
	for _, fault := range []string{"lost", "early", "silently lost"} {
		for _, stopAt := range []int{6 * workers, 6*workers + 2} {
			for _, killed := range []bool{false, true} {
				var s *sim
				for at := seed; s == nil || !s.done && at < seed+8000; at += 1000 {
					s = newSim(t, at, workers, 0, fault)
					s.chained, s.stopAt, s.killed = true, stopAt, killed
					s.run(12)
				}
				if run := s.judge(Options{}); run.Consistent || !s.done {
					t.Errorf("seed %d, %s (%v), ends (killed: %v) behind %d pushes: %+v", seed, fault, s.done, killed, stopAt, *run)
				}
			}
		}
	}
}

// A client that was away for so long that it comes back under another number is the same
// one: nothing of it is lost, and what is lost is found.
func TestNumbersChange(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, mode := range []int{0, 2, -1} {
		for _, fault := range []string{"", "lost", "doubled", "silently lost"} {
			s := newSimOf(t, seed, 4, mode, fault)
			s.open = true
			s.replica()
			s.run(12)
			run := s.judge(Options{})
			if fault == "" && (!run.Consistent || len(run.Notes) > 0 || run.Pushes != 48 || run.Unjudged > 0 || run.Workers != 4) {
				t.Errorf("%s: %+v %v", ModeOf(mode), *run, run.Violations)
			}
			if fault != "" && (run.Consistent || !s.done) {
				t.Errorf("%s, %s (%v): %+v", ModeOf(mode), fault, s.done, *run)
			}
		}
	}
}

// Servers whose trainers come and go may have a run without any that records: the others
// are judged, but not a directory of nothing else.
func TestRunWithoutTrainers(t *testing.T) {
	s := newSim(t, 1, 2, -1, "")
	s.run(3)
	whole := s.judge(Options{})
	must(t, errors.Join(whole.err()...))
	for _, open := range []bool{true, false} {
		cfg := s.cfg
		cfg.Run = audit.NewRun(time.Unix(9, 0))
		l, err := audit.NewLane(cfg, audit.LaneHeader{Open: open, Workers: 2, Staleness: -1, Merges: s.merges, Tables: []table.Spec{s.spec}})
		must(t, err)
		l.Begin()
		l.Add(audit.Push{Client: 9, Seq: 1})
		l.Took(1, 1, 0)
		must(t, l.Close())
		rep, err := Dir(t.Context(), s.cfg.Dir, Options{})
		var in *InputError
		if !open {
			if !errors.As(err, &in) {
				t.Errorf("a job's run without workers: %v", err)
			}
			continue
		}
		must(t, err)
		if len(rep.Runs) != 2 || !rep.Consistent || len(rep.Runs[1].Notes) == 0 {
			t.Errorf("%+v, %v", *rep, rep.Runs)
		}
		if _, err := Dir(t.Context(), s.cfg.Dir, Options{Run: cfg.Run}); !errors.As(err, &in) {
			t.Errorf("a run of lanes alone: %v", err)
		}
	}
}

// What explains a wrong value is said, with the push.
func TestExplanations(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, c := range []struct {
		fault string
		words []string
	}{
		{"straight", []string{"along the tree"}},
		{"silently lost", []string{"not in it", "without"}},
		{"silently doubled", []string{"twice"}},
		{"stale", []string{"as before version"}},
		{"torn", []string{"torn"}},
		{"swapped", []string{"it is key"}},
	} {
		for i := range uint64(2) {
			s := newSim(t, seed+i, 4, 0, c.fault)
			s.run(12)
			run := s.judge(Options{})
			v := run.Violations[0]
			if !slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(v.Text, w) }) {
				t.Errorf("%s, seed %d: %v", c.fault, seed+i, v)
			}
			if v.Push == nil && c.fault != "swapped" || v.Pull == nil || v.Key == nil {
				t.Errorf("%s: %+v names no pair", c.fault, *v)
			}
		}
	}
}

// Records of a lane that died, and of the one that went on, are one history; what
// is missing is said, and not taken for a fault.
func TestMissingRecords(t *testing.T) {
	seed := seedtest.Seed(t)
	s := newSim(t, seed, 3, -1, "")
	s.run(10)
	whole := s.judge(Options{})
	must(t, errors.Join(whole.err()...))
	for _, name := range files(t, s.cfg.Dir, "worker1-") {
		must(t, remove(name))
	}
	run := s.judge(Options{})
	if !run.Consistent || len(run.Notes) == 0 || run.Pulls >= whole.Pulls || run.Values >= whole.Values {
		t.Errorf("without a worker's record: %+v %v", *run, run.Violations)
	}
	for _, name := range files(t, s.cfg.Dir, "lane") {
		must(t, remove(name))
	}
	var in *InputError
	if _, err := Dir(t.Context(), s.cfg.Dir, Options{}); !errors.As(err, &in) {
		t.Errorf("without a lane's record: %v", err)
	}
	if _, err := Dir(t.Context(), t.TempDir(), Options{}); !errors.As(err, &in) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Dir(t.Context(), s.cfg.Dir, Options{Run: "another"}); !errors.As(err, &in) {
		t.Errorf("a run that is not there: %v", err)
	}
}

func (r *Run) err() (all []error) {
	for _, v := range r.Violations {
		all = append(all, errors.New(v.String()))
	}
	return all
}

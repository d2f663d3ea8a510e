package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

const described = `
hosts:
- {name: trainers, count: 4, cores: 16, network: 25Gbit, latency: 20us, workers: 1}
- {name: servers, count: 2, cores: 16, memory: 256GiB, network: 100Gbit, latency: 20us, servers: 1, lanes: 8, ssd: {devices: 4, read_iops: 800k, read: 3GB/s, write: 1GB/s}}
model: {kind: deepfm, fields: 39, dim: 16, hidden: [256, 256], rows: 1e9, zipf: 1.1}
job: {batch: 65536, sync: asp, replicas: 2, memory_hit: .95}
`

func parsed(t *testing.T, text string) *Cluster {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Distinct is right where it can be counted: summed over every id, and drawn.
func TestDistinct(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, c := range []struct {
		n, rows int
		zipf    float64
	}{{1000, 100, 0}, {1000, 100_000, 0}, {10_000, 50_000, 1}, {200_000, 30_000, 1.1}, {5000, 1_000_000, 1.3}, {1, 10, 2}, {100, 1, 1}} {
		total, naive := 0.0, 0.0
		cumulative := make([]float64, c.rows)
		for i := range c.rows {
			total += math.Pow(float64(i+1), -c.zipf)
			cumulative[i] = total
		}
		for i := range c.rows {
			naive += 1 - math.Pow(1-math.Pow(float64(i+1), -c.zipf)/total, float64(c.n))
		}
		got := Distinct(float64(c.n), float64(c.rows), c.zipf)
		if math.Abs(got/naive-1) > .01 {
			t.Errorf("%d draws of %d ids, zipf %v: %v distinct, the sum over all is %v", c.n, c.rows, c.zipf, got, naive)
		}
		drawn := drawDistinct(rng, cumulative, c.n)
		if math.Abs(got-drawn) > 5*math.Sqrt(got)+1 {
			t.Errorf("%d draws of %d ids, zipf %v: %v distinct, drawn %v", c.n, c.rows, c.zipf, got, drawn)
		}
	}
}

func drawDistinct(rng *rand.Rand, cumulative []float64, n int) float64 {
	seen := map[int]bool{}
	for range n {
		x := rng.Float64() * cumulative[len(cumulative)-1]
		low, high := 0, len(cumulative)-1
		for low < high {
			if mid := (low + high) / 2; cumulative[mid] < x {
				low = mid + 1
			} else {
				high = mid
			}
		}
		seen[low] = true
	}
	return float64(len(seen))
}

// What is added to what limits helps, what is added elsewhere does not.
func TestPredictFollowsTheBottleneck(t *testing.T) {
	c := parsed(t, described)
	base := Predict(c)
	if base.StepSeconds <= 0 || base.Bottleneck == "" || len(base.Resources) < 7 {
		t.Fatalf("%+v", base)
	}
	slow := parsed(t, strings.Replace(described, "25Gbit", "100Mbit", 1))
	p := Predict(slow)
	if p.Bottleneck != "network of trainers" {
		t.Errorf("at 100 Mbit/s limited by %s", p.Bottleneck)
	}
	// The link's bound by hand: what a worker pushes, at the rate.
	if want := math.Max(p.PushBytes, p.PullBytes) / (100e6 / 8); math.Abs(p.StepSeconds/want-1) > 1e-9 {
		t.Errorf("a step of %v s, its bytes take %v s", p.StepSeconds, want)
	}
	faster := parsed(t, strings.Replace(described, "25Gbit", "200Mbit", 1))
	if q := Predict(faster); math.Abs(q.StepSeconds*2/p.StepSeconds-1) > 1e-9 {
		t.Errorf("twice the link: %v s after %v s", q.StepSeconds, p.StepSeconds)
	}
	cores := parsed(t, strings.Replace(strings.Replace(described, "25Gbit", "100Mbit", 1), "cores: 16", "cores: 64", 1))
	if q := Predict(cores); q.StepSeconds > p.StepSeconds || q.StepSeconds < p.StepSeconds*.999 {
		t.Errorf("four times the cores of whom waits for the link: %v s after %v s", q.StepSeconds, p.StepSeconds)
	}
	if p.NeededRate <= 100e6/8 {
		t.Errorf("the link is what limits, yet %v B/s would do", p.NeededRate)
	}
	disk := parsed(t, strings.Replace(described, "memory_hit: .95", "memory_hit: 0", 1))
	if q := Predict(disk); q.AccessSeconds <= base.AccessSeconds || q.StepSeconds <= base.StepSeconds && q.Bottleneck == base.Bottleneck {
		t.Errorf("without a hit: %+v, with %+v", q, base)
	}
}

// With dense ranks the layers' work is theirs: what they and the workers do is what the
// workers did, activations go over the link instead of parameters, and with the number of
// workers that is said neither kind waits for the other.
func TestPredictDenseRanks(t *testing.T) {
	whole := parsed(t, described)
	split := parsed(t, strings.Replace(described, "hosts:", "hosts:\n- {name: layers, count: 2, cores: 8, network: 25Gbit, latency: 20us, dense_ranks: 1}", 1))
	p, q := Predict(whole), Predict(split)
	spent := func(p Prediction, hosts ...string) (sum float64) {
		for _, r := range p.Resources {
			for _, h := range hosts {
				if r.Host == h && r.Name == "cores" {
					sum += r.Busy * r.Have
				}
			}
		}
		return sum
	}
	socket := whole.Costs.SocketByte * 1e-9
	params, adds := whole.Model.dense()
	moved := socket * (2*2*4*q.ActivationBytes - 4*2*4*params + 2*2*4*params) // both ends; values: 4 workers had them, 2 ranks have
	moved += 4 * 2 * q.ActivationBytes / 4 * whole.Costs.BetweenFloat * 1e-9
	if got, want := spent(q, "trainers", "layers"), spent(p, "trainers")+moved+2*whole.Costs.WorkerStep*1e-9; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("the halves take %v core-seconds, want %v", got, want)
	}
	if want := 65536. / 4 * 4 * (2 + 39*16); q.ActivationBytes != want || q.PushBytes != p.PushBytes-4*params {
		t.Errorf("%v bytes of activations, want %v; %v pushed, %v without dense ranks", q.ActivationBytes, want, q.PushBytes, p.PushBytes)
	}
	if layers := 65536 * adds * whole.Costs.MultiplyAdd * 1e-9; spent(q, "layers") < layers {
		t.Errorf("dense ranks take %v core-seconds, their layers alone %v", spent(q, "layers"), layers)
	}
	// As many workers as are said, on hosts like theirs.
	const fine = 60
	even := *split
	even.Hosts = append([]Host(nil), split.Hosts...)
	for i := range even.Hosts {
		switch even.Hosts[i].Name {
		case "layers":
			even.Hosts[i].Count = fine
		case "trainers":
			even.Hosts[i].Count = int(math.Round(fine * q.WorkersPerDense))
		}
	}
	even.Job.Batch *= fine // so that what a step costs whatever is in it is as small a part
	at := map[string]float64{}
	for _, r := range Predict(&even).Resources {
		at[r.Name] = max(at[r.Name], r.Busy)
	}
	if a, b := at["worker threads"], at["dense threads"]; math.Abs(a/b-1) > .15 {
		t.Errorf("with %.3g workers to a dense rank one kind is busy for %v s, the other for %v", q.WorkersPerDense, a, b)
	}
	if text := q.Text(split); !strings.Contains(text, "workers to a dense rank") {
		t.Error(text)
	}
	// Where both kinds compute on the same cores, reading takes of them.
	shared := parsed(t, strings.Replace(strings.Replace(described, "workers: 1", "workers: 1, dense_ranks: 1", 1), "sync: asp", "sync: bsp", 1))
	if way := Predict(shared).Way; way.Reading <= 0 || q.Way.Reading != 0 || p.Way.Reading != 0 {
		t.Errorf("reading takes %v s of a step's way on cores that both kinds share, %v on others, %v without dense ranks", way.Reading, q.Way.Reading, p.Way.Reading)
	}
	card := parsed(t, strings.Replace(described, "hosts:", "hosts:\n- {name: layers, count: 2, cores: 8, network: 25Gbit, dense_ranks: 1, gpu: {devices: 2, flops: 10T}}", 1))
	for _, r := range Predict(card).Resources {
		if want := 65536. / 2 * adds * 6 / 2 / 10e12; r.Name == "gpu" && math.Abs(r.Busy/want-1) > 1e-9 {
			t.Errorf("cards are busy for %v s, want %v", r.Busy, want)
		}
	}
}

// A copy takes what is left of the link, and an eighth of it where nothing is; what does not
// depend on the rows is the fence.
func TestRecover(t *testing.T) {
	inMemory := strings.Replace(described, ", memory_hit: .95", "", 1)
	c := parsed(t, inMemory)
	rows := 1e9 * 2 / 2.
	bytes := rows * (17*4*3 + 8)
	for _, x := range []struct{ busy, share float64 }{{0, 1}, {.4, .6}, {1, .125}} {
		r := c.Recover(func(h *Host) float64 { return x.busy })
		if want := bytes / (100e9 / 8 * x.share); math.Abs(r.LinkShare-x.share) > 1e-9 || math.Abs(r.RefillSeconds/want-1) > 1e-9 {
			t.Errorf("a link busy for %v of the time: %+v, want a copy of %v s", x.busy, r, want)
		}
		if r.DetectSeconds != .485 || math.Abs(r.DetectSeconds+r.SilentSeconds-2.025) > 1e-9 { // 510 ms from an answer, 2.05 s from a question
			t.Errorf("detection: %+v", r)
		}
	}
	// Of a job it is the network's part of the step.
	slow := parsed(t, strings.Replace(inMemory, "network: 100Gbit", "network: 400Mbit", 1))
	p := Predict(slow)
	if busy := p.linkUse(&slow.Hosts[1]); busy <= .1 || math.Abs(p.Recovery.LinkShare-max(1-busy, .125)) > 1e-9 || p.RecoverSeconds != p.Recovery.Seconds() {
		t.Errorf("servers' links are busy for %v of the time: %+v", busy, p.Recovery)
	}
	if text := p.Text(slow); !strings.Contains(text, "of the link; 1.54 s more if its host falls silent") {
		t.Error(text)
	}
	one := parsed(t, strings.Replace(described, "replicas: 2", "replicas: 1", 1))
	r := Predict(one).Recovery
	if r.DetectSeconds != 0 || r.LinkShare != 1 || !(r.RefillSeconds > 0) {
		t.Errorf("without replicas: %+v", r)
	}
}

// What is pulled and what is pushed goes over a link one after the other in bsp, and a push
// once more for each server of a chain.
func TestPredictWayOverLinks(t *testing.T) {
	way := func(replicas string) Way {
		text := strings.NewReplacer("25Gbit", "100Mbit", "100Gbit", "100Mbit", "sync: asp", "sync: bsp", "replicas: 2", "replicas: "+replicas).Replace(described)
		return Predict(parsed(t, text)).Way
	}
	p := Predict(parsed(t, described))
	const rate = 100e6 / 8
	one, two := way("1"), way("2")
	// Four workers, two servers: each of these sends what two workers pull.
	if got, want := one.Pull, 2*p.PullBytes/rate; got < want || got > 1.05*want {
		t.Errorf("a pull is on its way for %v s, the link has it for %v", got, want)
	}
	if got, want := one.Push, 2*p.PushBytes/rate; got < want || got > 1.05*want {
		t.Errorf("a push is on its way for %v s, the link has it for %v", got, want)
	}
	if got, want := two.Push-one.Push, 2*p.PushBytes/rate; got < want || got > 1.05*want {
		t.Errorf("a second replica makes a push %v s longer, the link has it for %v", got, want)
	}
	if got := two.Latency - one.Latency; math.Abs(got-20e-6) > 1e-12 {
		t.Errorf("a second replica makes latencies %v s longer, want one there and back", got)
	}
}

// A step takes no longer with more staleness, and no less than its longest resource.
func TestPredictModes(t *testing.T) {
	last := math.Inf(1)
	for _, sync := range []string{"bsp", "ssp, staleness: 1", "ssp, staleness: 8"} {
		p := Predict(parsed(t, strings.Replace(described, "sync: asp", "sync: "+sync, 1)))
		if p.StepSeconds > last {
			t.Errorf("%s: %v s, after %v s", sync, p.StepSeconds, last)
		}
		last = p.StepSeconds
		for _, r := range p.Resources {
			if r.Part > 1+1e-9 || r.Part <= 0 {
				t.Errorf("%s: %s of %s is busy %v of the time", sync, r.Name, r.Host, r.Part)
			}
		}
	}
	p := Predict(parsed(t, described))
	if text := p.Text(parsed(t, described)); !strings.Contains(text, p.Bottleneck) || !strings.Contains(text, "queue pairs") {
		t.Error(text)
	}
}

// Costs that made samples are found in them, also with a tenth of noise.
func TestFit(t *testing.T) {
	rng := seedtest.Rand(t)
	want := Costs{ReadID: 90, ComputeFloat: 1.5, MultiplyAdd: .4, BetweenFloat: 1.5, WorkerRow: 70, WorkerFloat: 3, WorkerStep: 50_000, ServerRow: 150, ServerFloat: 4, ServerStep: 9000}
	split := Model{Kind: "deepfm", Fields: 20, Dim: 16, Hidden: []int{16}}
	for _, noise := range []float64{0, .02} {
		var samples []Sample
		for _, m := range []Model{{Kind: "lr", Fields: 20}, {Kind: "fm", Fields: 20, Dim: 4}, {Kind: "fm", Fields: 20, Dim: 64}, {Kind: "fm", Fields: 20, Dim: 32}, {Kind: "deepfm", Fields: 20, Dim: 8, Hidden: []int{256, 128}}, split} {
			for _, batch := range []float64{256, 2048, 16384} {
				s := Sample{Model: m, Examples: 1e6, Steps: 1e6 / batch}
				s.Rows = s.Steps * Distinct(batch*20, 2e5, 1.1)
				params, adds := m.dense()
				ids, f := s.Examples*20, m.RowFloats()
				s.WorkerNs = ids*want.ReadID + ids*f*want.ComputeFloat + s.Examples*adds*want.MultiplyAdd + s.Rows*want.WorkerRow + s.Rows*f*want.WorkerFloat + s.Steps*want.WorkerStep
				if len(m.Hidden) == 1 { // with two dense ranks
					s.Dense = 2
					s.WorkerNs += 2*s.Examples*m.between()*want.BetweenFloat + 2*s.Steps*want.WorkerStep
				}
				s.ServerNs = s.Rows*want.ServerRow + (s.Rows*f+s.Steps*params*max(1, s.Dense))*want.ServerFloat + s.Steps*(1+s.Dense)*want.ServerStep
				s.WorkerNs *= 1 + noise*(2*rng.Float64()-1)
				s.ServerNs *= 1 + noise*(2*rng.Float64()-1)
				samples = append(samples, s)
			}
		}
		got, err := Fit(samples, Costs{SocketByte: 7})
		if err != nil {
			t.Fatal(err)
		}
		if got.SocketByte != 7 {
			t.Errorf("what samples do not show was changed: %+v", got)
		}
		for i, pair := range [][2]float64{{got.ReadID, want.ReadID}, {got.MultiplyAdd, want.MultiplyAdd}, {got.BetweenFloat, want.BetweenFloat}, {got.ServerRow, want.ServerRow}, {got.ServerFloat, want.ServerFloat}, {got.ComputeFloat, want.ComputeFloat}} {
			if math.Abs(pair[0]/pair[1]-1) > .002+20*noise {
				t.Errorf("noise %v, cost %d: %v, want %v", noise, i, pair[0], pair[1])
			}
		}
	}
	var alone []Sample // without dense ranks
	for i := range 6 {
		m := Model{Kind: "fm", Fields: 20, Dim: 4 << i}
		alone = append(alone, Sample{Model: m, Examples: 1e6, Steps: 100 * float64(1+i), Rows: 1e6 / float64(1+i), WorkerNs: 1e9 * float64(3+i), ServerNs: 1e8 * float64(2+i)})
	}
	if got, err := Fit(alone, Costs{BetweenFloat: 2}); err != nil || got.BetweenFloat != 2 {
		t.Errorf("of samples without dense ranks: %+v, %v", got, err)
	}
	if _, err := Fit(nil, Costs{}); err == nil {
		t.Error("costs of nothing")
	}
}

// A wrong description is refused with the word that is wrong.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":          "empty",
		"hosts: []": "hosts is missing",
		"hosts: 3":  "line 1: there is \"3\" where a list should be",
		"host: []":  "host",
		"hosts: [{count: 1, cores: 0, workers: 1, servers: 1}]":                                   "cores is 0",
		"hosts: [{count: 1, cores: 2, workers: 1}]":                                               "0 servers",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1, network: fast}]":                    "25Gbit",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1, network: 1_0Gbit}]":                 "25Gbit",
		"hosts: [{count: 1_0, cores: 2, workers: 1, servers: 1}]":                                 `there is "1_0" where a whole number should be`,
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1, latency: -1s}]":                     "less than 0",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\njob: {sync: often}":               "must be bsp, ssp or asp",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\njob: {replicas: 2}":               "number of servers, 1",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\nmodel: {kind: gpt}":               "lr, fm, widedeep",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\nmodel: {rows: -5}":                "from 0 on",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\ncosts: {read_id_ns: -1}":          "from 0 to",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1, gpu: {devices: 1}}]":                "gpu.flops is missing",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\njob: {memory_hit: 2}":             "from 0 to 1",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1, dense_ranks: -1}]":                  "dense_ranks is -1",
		"hosts: [{count: 9, cores: 2, workers: 1, servers: 1, dense_ranks: 9}]\njob: {batch: 70}": "81 dense ranks",
		"hosts:\n- {count: 1, coers: 2}":                                                          "line 2: key \"coers\" is unknown, did you mean \"cores\"?",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\nmodel: {rows: 1e30}":              "model.rows is 1e+30, must be from 1 to 1e+15",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\nmodel: {zipf: .nan}":              "model.zipf is NaN",
		"hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\njob: {memory_hit: .95}":           "no host with servers has an ssd",
		strings.Repeat("#", maxText+1):                                                            "at most",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want it to say %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(described))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := Parse(text); err == nil {
			if p := Predict(c); math.IsNaN(p.StepSeconds) || p.StepSeconds < 0 {
				t.Errorf("%q: %v", text, p.StepSeconds)
			}
		}
	})
}

// However many rows there are, and few of them fit a float's steps, the sum ends.
func TestDistinctOfManyRows(t *testing.T) {
	for _, zipf := range []float64{0, 1, 1.1} {
		for _, rows := range []float64{1e15, 1 << 52, 1 << 53, 1e30, math.MaxFloat64} {
			if got := Distinct(1e6, rows, zipf); !(got > 0 && got <= 1e6) || zipf == 0 && got < .999e6 {
				t.Errorf("%v of %g rows, exponent %v", got, rows, zipf)
			}
		}
	}
}

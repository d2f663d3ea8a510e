package allreduce

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"psrt/bench/child"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/nccl"
	"psrt/csrc/nccl/nccltest"
)

// The test binary is a rank when this is set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_SERVE") != "" {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func small(transport string, ranks int) Config {
	c := Config{Transport: transport, Ranks: ranks, Sizes: []int{400, 200 << 10}, Iterations: 5, Rounds: 2, Seed: 7,
		Child: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_SERVE=1"}}}
	c.Options.Node = -1
	return c
}

func TestRun(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		r, err := Run(t.Context(), small(transport, 3))
		if err != nil {
			t.Fatalf("over %s: %v", transport, err)
		}
		if len(r.Rows) != 2 || r.Transport != transport || !strings.Contains(strings.Join(r.Notes, "\n"), transport+": ") {
			t.Errorf("over %s: %+v", transport, r)
		}
		for _, row := range r.Rows {
			bus := row.Bandwidth.Avg * 4 / 3
			if row.Bandwidth.Avg <= 0 || row.Limit <= 0 || row.Iterations != 10 || row.Checksum == "" || math.Abs(row.Collective.BusGBs/bus-1) > 1e-9 {
				t.Errorf("over %s: %+v", transport, row)
			}
		}
	}
}

// TestRival lets a real OpenMPI take turns, on machines that have one.
func TestRival(t *testing.T) {
	c := small("shm", 2)
	c.Rival, c.Rounds = true, 1
	if openMPI(t.Context()) == "" {
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "apt-get install openmpi-bin") {
			t.Errorf("without OpenMPI: %v", err)
		}
		return
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Rival == nil || row.Rival.Value <= 0 || row.Rival.Rounds != 1 {
			t.Errorf("%+v", row.Rival)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := parse("64 1.5 0000000a\n128 2 ff\n", []int{64, 128})
	if err != nil || !slices.Equal(got, []said{{1.5, 10}, {2, 255}}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "64 1.5 a\n", "64 1.5 a\n64 1 a\n", "64 0 a\n128 1 a\n", "64 1 a\n128 1 a\n256 1 a\n", "nothing\n"} {
		if _, err := parse(text, []int{64, 128}); err == nil {
			t.Errorf("%q is understood", text)
		}
	}
}

func TestCheckSees(t *testing.T) {
	sum := make([]float32, 100)
	for r := range 3 {
		v := make([]float32, 100)
		fill(v, r, 9)
		for i := range sum {
			sum[i] += v[i]
		}
	}
	if err := check(sum, 3, 9); err != nil {
		t.Error(err)
	}
	sum[57]++
	if err := check(sum, 3, 9); err == nil || !strings.Contains(err.Error(), "element 57") {
		t.Errorf("a wrong element: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"one rank":     func(c *Config) { c.Ranks = 1 },
		"no sizes":     func(c *Config) { c.Sizes = nil },
		"odd size":     func(c *Config) { c.Sizes = []int{6} },
		"no rounds":    func(c *Config) { c.Rounds = 0 },
		"rival, verbs": func(c *Config) { c.Transport, c.Rival = "verbs", true },
	} {
		c := small("shm", 2)
		change(&c)
		if c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestNCCLCards: ranks on this machine's cards, with PSRT_GPU set; else on fake ones.
func TestNCCLCards(t *testing.T) {
	c := small("shm", min(cudatest.Cards(t), 4))
	if c.Ranks == 0 {
		c.Ranks = 4
		t.Setenv(cuda.Variable, cudatest.Build(t))
		t.Setenv(nccl.Variable, nccltest.Build(t))
		t.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
	}
	c.Collective = NCCL
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || !strings.Contains(strings.Join(r.Notes, "\n"), "its sums by NCCL ") {
		t.Errorf("%+v", r)
	}
}

// TestNCCL: sums by NCCL, a fake one, are those of the ring, and what it works with is said.
func TestNCCL(t *testing.T) {
	c := small("shm", 3)
	c.Collective = NCCL
	c.Child.Env = append(c.Child.Env, "PSRT_FAKE_CUDA_DEVICES=4", cuda.Variable+"="+cudatest.Build(t), nccl.Variable+"="+nccltest.Build(t))
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || !strings.Contains(strings.Join(r.Notes, "\n"), "its sums by NCCL 2.27.3 on GPU 0, fake device 0") {
		t.Errorf("%+v", r)
	}
	c.Child.Env[len(c.Child.Env)-1] = nccl.Variable + "=/nowhere/libnccl.so.2"
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "/nowhere/libnccl.so.2") {
		t.Errorf("without NCCL: %v", err)
	}
	c.Collective = "mpi"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), `collective "mpi"`) {
		t.Errorf("another: %v", err)
	}
}

//go:build cgo

package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/train/model"
	"psrt/tiers/hbm/gpu"
)

// specs are all that a dense half may have.
func specs() map[string]model.Spec {
	base := model.Spec{Task: model.CTR, Kind: model.DeepFM, Fields: 6, Dim: 5, Hidden: []int{19, 16}, Seed: 7}
	all := map[string]model.Spec{"deepfm": base}
	edit := func(name string, f func(*model.Spec)) {
		s := base
		f(&s)
		all[name] = s
	}
	edit("wide", func(s *model.Spec) { s.Kind, s.Fields, s.Dim, s.Hidden = model.WideDeep, 40, 16, []int{70, 33} })
	edit("dropout", func(s *model.Spec) { s.Dropout = 0.25 })
	edit("norm", func(s *model.Spec) { s.BatchNorm = true })
	edit("norm and dropout", func(s *model.Spec) { s.BatchNorm, s.Dropout = true, 0.5 })
	edit("cross", func(s *model.Spec) { s.Kind, s.CrossLayers = model.DCN, 3 })
	edit("regression", func(s *model.Spec) { s.Task = model.Regression })
	return all
}

// kinds are devices, a GPU by a fake driver, or, with PSRT_GPU set, this machine's.
func kinds(t *testing.T) []string {
	if !cudatest.Real(t) {
		t.Setenv(cuda.Variable, cudatest.Library(t))
	}
	return []string{Host, "gpu", "so:" + acceltest.Build(t)}
}

func open(t *testing.T, kind string, spec model.Spec, most, stages int) (*Device, *model.Model) {
	t.Helper()
	m, err := model.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(kind, 0, m, most, stages)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, m
}

// TestSameBits: of all models, with leaves of all sizes, every device gives the bits of the
// others, and those of the processor where it says so.
func TestSameBits(t *testing.T) {
	for name, spec := range specs() {
		t.Run(name, func(t *testing.T) {
			var first [][]float32
			for _, kind := range kinds(t) {
				d, m := open(t, kind, spec, 24, 3)
				t.Logf("%s: exact %v, %v", d.Name(), d.Exact(), d.cut)
				dense := make([]float32, m.Layout().Total)
				if err := m.InitDense(dense); err != nil {
					t.Fatal(err)
				}
				if err := d.Values(dense); err != nil {
					t.Fatal(err)
				}
				var leaves []Leaf
				for _, n := range []int{24, 0, 5, 1, 23, 16, 17} {
					leaves = append(leaves, d.trial(n))
				}
				if err := d.Step(leaves); err != nil {
					t.Fatal(err)
				}
				var all [][]float32
				for _, l := range leaves {
					all = append(all, l.Out.Dense, l.Out.G, l.Out.X0, l.Out.Preds)
				}
				if first == nil {
					first = all
				}
				for i, x := range all {
					if !equal(x, first[i]) {
						t.Errorf("%s: part %d of leaf %d is not what %s has", kind, i%4, i/4, Host)
					}
				}
				scratch := m.NewScratch(24)
				for i, l := range leaves {
					want := d.trial(len(l.In.Z))
					want.In.Dense = dense
					if err := scratch.StepDense(&want.In, &want.Out); err != nil {
						t.Fatal(err)
					}
					for k, x := range [][]float32{want.Out.Dense, want.Out.G, want.Out.X0, want.Out.Preds} {
						if d.Exact() && !equal(x, all[4*i+k]) {
							t.Errorf("%s: part %d of leaf %d is not what the processor has", kind, k, i)
						}
					}
				}
			}
		})
	}
}

// TestRefused: what cannot be a device says why, and a leaf whose parts do not fit is not
// computed.
func TestRefused(t *testing.T) {
	t.Setenv(cuda.Variable, cudatest.Library(t))
	m, err := model.New(specs()["deepfm"])
	if err != nil {
		t.Fatal(err)
	}
	for kind, says := range map[string]string{"so:/nowhere/x.so": "cannot open shared object", "7": "GPU 7 of 1"} {
		if _, err := Open(kind, 0, m, 4, 1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", kind, err, says)
		}
	}
	d, _ := open(t, Host, specs()["deepfm"], 4, 1)
	for i, spoil := range []func(*Leaf){
		func(l *Leaf) { l.In.Labels = l.In.Labels[1:] },
		func(l *Leaf) { l.In.X0 = l.In.X0[1:] },
		func(l *Leaf) { l.Out.Dense = l.Out.Dense[1:] },
		func(l *Leaf) { *l = d.trial(5) },
	} {
		l := d.trial(4)
		spoil(&l)
		if err := d.Step([]Leaf{l}); err == nil {
			t.Errorf("leaf %d was computed", i)
		}
	}
	if err := d.Step([]Leaf{d.trial(4)}); err != nil {
		t.Errorf("and a good one after them: %v", err)
	}
}

// TestFails: a device that fails in the middle says so from then on, and lets itself be
// closed; one without room for the layers never begins.
func TestFails(t *testing.T) {
	library := "so:" + acceltest.Build(t, "-DTHIS=1") // whose count of runs nobody else has
	m, err := model.New(specs()["deepfm"])
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PSRT_TWIN_BYTES", "1000")
	if _, err := Open(library, 0, m, 4, 1); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("1000 bytes: %v", err)
	}
	t.Setenv("PSRT_TWIN_BYTES", fmt.Sprint(1<<30))
	t.Setenv("PSRT_TWIN_FAIL", "150")
	d, err := Open(library, 0, m, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	var failed *Error
	for range 150 {
		if err = d.Step([]Leaf{d.trial(4)}); err != nil {
			break
		}
	}
	if !errors.As(err, &failed) || failed.Device != d.Name() || !strings.Contains(err.Error(), "told to fail") {
		t.Fatalf("a device that fails: %v", err)
	}
	if again := d.Values(make([]float32, m.Layout().Total)); again != err {
		t.Errorf("after %v: %v", err, again)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestHangs: a device that is not done in time is given up: what was asked of it has an error, and
// nobody waits for it again.
func TestHangs(t *testing.T) {
	t.Setenv(cuda.Variable, cudatest.Library(t))
	hang := filepath.Join(t.TempDir(), "hang")
	t.Setenv("PSRT_FAKE_CUDA_HANG", hang)
	m, err := model.New(specs()["deepfm"])
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open("gpu", 0, m, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Step([]Leaf{d.trial(4)}); err != nil {
		t.Fatal(err)
	}
	d.within = 50 * time.Millisecond
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if err := d.Step([]Leaf{d.trial(4)}); !errors.As(err, &failed) || !errors.Is(err, gpu.ErrHangs) || !strings.Contains(err.Error(), "not over after 50ms") {
		t.Errorf("a device that hangs: %v", err)
	}
	d.within = time.Hour
	if err := d.Close(); err != nil { // at once
		t.Error(err)
	}
	if err := os.Remove(hang); err != nil {
		t.Error(err)
	}
}

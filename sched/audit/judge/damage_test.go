package judge

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/audit"
)

func files(t testing.TB, dir, part string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+part+"*"+audit.Ext))
	must(t, err)
	return all
}

func remove(name string) error { return os.Remove(name) }

// A file that was cut off, as by a machine that lost power, is judged as far as it
// goes; no healthy history is called broken.
func TestCutFiles(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for _, mode := range []int{0, 2, -1} {
		s := newSim(t, seed, 3, mode, "")
		if mode == 2 {
			s.replica()
		}
		s.run(10)
		all := files(t, s.cfg.Dir, "")
		for range rounds {
			name := all[rng.IntN(len(all))]
			b, err := os.ReadFile(name)
			must(t, err)
			cut := slices.Clone(b)
			at := 2048 + rng.IntN(max(1, len(b)-2048))
			if rng.IntN(2) == 0 {
				cut = cut[:min(at, len(cut))]
			} else {
				clear(cut[min(at, len(cut)):])
			}
			must(t, os.WriteFile(name, cut, 0o644))
			rep, err := Dir(t.Context(), s.cfg.Dir, Options{})
			must(t, os.WriteFile(name, b, 0o644))
			must(t, err)
			if run := rep.Runs[0]; !run.Consistent {
				t.Fatalf("%s, %s cut at %d of %d: %v", ModeOf(mode), filepath.Base(name), at, len(b), run.Violations)
			}
		}
	}
}

// Records that no recorder writes are refused or judged, and nothing worse.
func FuzzJudge(f *testing.F) {
	f.Add(uint64(1), 3, uint64(40), byte(1))
	f.Add(uint64(2), 0, uint64(16), byte(9))
	f.Fuzz(func(t *testing.T, seed uint64, which int, field uint64, to byte) {
		s := newSim(t, seed, 2, int(seed%3)-1, "")
		s.run(3)
		all := files(t, s.cfg.Dir, "")
		name := all[uint(which)%uint(len(all))]
		r, err := audit.Open(name)
		must(t, err)
		var rec audit.Record
		var places []int64
		for {
			at, err := r.Next(&rec)
			if err != nil {
				break
			}
			places = append(places, at)
		}
		must(t, r.Close())
		b, err := os.ReadFile(name)
		must(t, err)
		at := places[int(field%uint64(len(places)))]
		b[at+8+int64(field>>8)%64] = to
		body := b[at+8 : at+8+int64(binary.LittleEndian.Uint32(b[at:]))]
		binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		must(t, os.WriteFile(name, b, 0o644))
		rep, err := Dir(t.Context(), s.cfg.Dir, Options{})
		var in *InputError
		switch {
		case err != nil && !errors.As(err, &in):
			t.Error(err)
		case err == nil && strings.Contains(rep.Dir, "\x00"):
			t.Error(rep.Dir)
		}
	})
}

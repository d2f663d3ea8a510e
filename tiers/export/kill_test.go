package export

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/ckpt"
	"psrt/tiers/export/quant"
)

// TestKillWhileReadingAndWriting ends an export within tables: in the reading,
// the sorting on disk, and the writing of each. (Package outdir ends it between
// all operations on files.)
func TestKillWhileReadingAndWriting(t *testing.T) {
	if dir := os.Getenv("PSRT_TEST_DIR"); dir != "" {
		m, err := ckpt.Open(os.Getenv("PSRT_TEST_MODEL"))
		check(t, err)
		at, err := strconv.Atoi(os.Getenv("PSRT_TEST_KILL_AT"))
		check(t, err)
		point := 0
		_, err = Write(context.Background(), m, dir, Options{Kind: Inference, Quantize: quant.F16, Memory: 1, Progress: func(Progress) {
			if point++; point > at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}})
		check(t, err)
		return
	}
	w := makeWorld(rand.New(rand.NewPCG(seedtest.Seed(t), 0)), 40_000)
	m := w.save(t, 1, false)
	dir := filepath.Join(t.TempDir(), "out")
	_, err := Write(context.Background(), m, dir, Options{Kind: Inference})
	check(t, err)
	before := files(t, dir)
	step, kills := 3, 0
	if os.Getenv("PSRT_KILLS") != "" {
		step = 1
	}
	for at := 0; ; at += step {
		c := exec.Command(os.Args[0], "-test.run=^TestKillWhileReadingAndWriting$")
		c.Env = append(os.Environ(), "PSRT_TEST_DIR="+dir, "PSRT_TEST_MODEL="+m.Dir(), "PSRT_TEST_KILL_AT="+strconv.Itoa(at))
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("point %d: %v\n%s", at, err, out)
			}
		}
		kills++
		now := files(t, dir)
		for name, b := range before {
			if now[name] != b {
				t.Fatalf("a kill at point %d changed %s", at, name)
			}
		}
	}
	if kills < 5 {
		t.Errorf("%d points", kills)
	}
	if c, err := readContent(dir); err != nil || c.Tables[0].Encoding != "fp16" {
		t.Errorf("the export that was not killed: %+v, %v", c, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func readContent(dir string) (*Content, error) {
	_, c, err := Verify(context.Background(), dir)
	return c, err
}

//go:build cgo

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// over runs a test over memory that is mapped and memory that is not.
func over(t *testing.T, f func(t *testing.T, transport string)) {
	for _, tr := range []string{"shm", "tcp"} {
		t.Run(tr, func(t *testing.T) { f(t, tr) })
	}
}

// Every function once, right and wrong, from C.
func TestEveryFunction(t *testing.T) {
	over(t, func(t *testing.T, tr string) {
		w := servers(t, tr, 1)
		if said := run(t, program(t, "basic"), config(t, w, tr, 0), filepath.Join(t.TempDir(), "model")); said != "" {
			t.Errorf("the library wrote into its host's output:\n%s", said)
		}
	})
}

// Several clients and many threads in one process.
func TestThreads(t *testing.T) {
	over(t, func(t *testing.T, tr string) {
		w := servers(t, tr, 3)
		run(t, program(t, "threads"), config(t, w, tr, 0), config(t, w, tr, 1), config(t, w, tr, 2))
	})
}

func TestHostIsLeftAlone(t *testing.T) {
	w := servers(t, "tcp", 1)
	if said := run(t, program(t, "host"), filepath.Join(library(t), "libpsrt.so"), config(t, w, "tcp", 0)); said != "" {
		t.Errorf("output: %s", said)
	}
}

// PSRT_CYCLES asks for more; make full runs 1000.
func TestCyclesLeaveNothing(t *testing.T) {
	over(t, func(t *testing.T, tr string) {
		w := servers(t, tr, 1)
		t.Log(run(t, program(t, "cycles"), config(t, w, tr, 0), fromEnv("PSRT_CYCLES", "60")))
	})
}

func fromEnv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func TestServerLostAndBack(t *testing.T) {
	over(t, func(t *testing.T, tr string) {
		w := servers(t, tr, 1)
		cmd := exec.Command(program(t, "lost"), config(t, w, tr, 0))
		var said strings.Builder
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(runLimit, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			switch lines.Text() {
			case "kill":
				w.Kill(0)
			case "start":
				w.Start(0)
			}
			io.WriteString(in, "\n")
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
	})
}

// Random calls never end the process. PSRT_FUZZ_CALLS asks for more.
func TestRandomCalls(t *testing.T) {
	over(t, func(t *testing.T, tr string) {
		w := servers(t, tr, 1)
		seed := seedtest.Fixed(t, 17).Uint64()
		t.Log(run(t, program(t, "fuzz"), config(t, w, tr, 0), fmt.Sprint(seed), fromEnv("PSRT_FUZZ_CALLS", "20000")))
	})
}

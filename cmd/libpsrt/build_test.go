package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/cuda/cudatest"
	"psrt/rdma/invariant"
	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
)

// built is the library and where C programs find it, made once a run.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	if args := os.Getenv(goPullsEnv); args != "" {
		if err := pullAndPrint(args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := invariant.Main(m)
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// library builds the library as make build does, and gives its directory; where one has been built it is that.
func library(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(cudatest.Built); dir != "" {
		return dir
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "libpsrt"); built.err != nil {
			return
		}
		here, err := os.Getwd()
		if err != nil {
			built.err = err
			return
		}
		built.err = buildLibrary(built.dir, here, nil)
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

func buildLibrary(dir, here string, more []string) error {
	args := append([]string{"build", "-buildvcs=false", "-buildmode=c-shared", "-o", filepath.Join(dir, "libpsrt.so"), "-ldflags",
		"-extldflags '-Wl,-soname,libpsrt.so.1 -Wl,--version-script=" + filepath.Join(here, "libpsrt.map") + "'"}, more...)
	cmd := exec.Command(filepath.Join(goroot(), "bin", "go"), append(args, ".")...)
	cmd.Dir = here
	if sanitized() {
		cmd.Env = append(os.Environ(), "CGO_CFLAGS=-g -O1 "+sanitizers, "CGO_LDFLAGS="+sanitizers)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return os.Symlink("libpsrt.so", filepath.Join(dir, "libpsrt.so.1"))
}

// PSRT_SANITIZE=1 builds the C parts of the library, and the programs, with what
// finds wrong uses of memory and undefined behaviour.
const sanitizers = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"

func sanitized() bool { return os.Getenv("PSRT_SANITIZE") != "" }

// goroot is the Go that runs this test.
func goroot() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "/usr/lib/go"
	}
	return strings.TrimSpace(string(out))
}

// program compiles testdata/name.c against the library, unless it has been before.
func program(t testing.TB, name string, flags ...string) string {
	t.Helper()
	if dir := os.Getenv(cudatest.Built); dir != "" {
		return filepath.Join(dir, name)
	}
	lib := library(t)
	out := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=gnu99", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I.", "-pthread", "-o", out, filepath.Join("testdata", name+".c")}, flags...)
	if sanitized() {
		args = append(args, strings.Fields(sanitizers)...)
	}
	if name == "host" { // loads the library by itself
		args = append(args, "-ldl")
	} else {
		args = append(args, "-L"+lib, "-Wl,-rpath,"+lib, "-lpsrt")
	}
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, b)
	}
	return out
}

// runLimit is for a machine ten times slower than it should be.
const runLimit = 4 * time.Minute

// run runs a program to its end; what it says is the result.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:allow_user_segv_handler=1", "UBSAN_OPTIONS=halt_on_error=1")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(runLimit, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		t.Fatalf("%s was not done within %v\n%s", filepath.Base(name), runLimit, said.String())
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, said.String())
	}
	return said.String()
}

// servers starts what the C programs talk to.
func servers(t testing.TB, transport string, workers int) *kvtest.World {
	return kvtest.New(t, kvtest.Shape{Transport: transport, Servers: 1, Lanes: 2, Workers: workers, Staleness: server.Async, Dense: 50})
}

// config writes a worker's configuration and gives the file's name.
func config(t testing.TB, w *kvtest.World, transport string, worker int) string {
	t.Helper()
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "client.yaml")
	if err := os.WriteFile(token, w.Token, 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("servers: [%q]\ntoken_file: %s\nworker: %d\ntransport: %s\ntables:\n- name: rows\n  dim: 3\n  init: {kind: zero}\n  optimizer: {kind: sgd, lr: 1}\n",
		w.Listen[0], token, worker, transport)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

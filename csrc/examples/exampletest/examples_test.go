package exampletest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
)

// bench is what all tests share: built once, in a folder of its own, unless it has been before.
type bench struct {
	dir, psrt, library, header string
	train, test, token         string
}

// python is the distribution's: .ci/deps.sh test installs NumPy and PyTorch for it. With PSRT_GPU set it is
// the one whose PyTorch .ci/gpu-check.sh has asked for a GPU.
var python = "/usr/bin/python3"

func TestExamples(t *testing.T) {
	b := build(t)
	addr := b.serve(t, "tables.yaml").Address
	for _, c := range []struct {
		name string
		run  func(t *testing.T) []string // builds it where need be; the command
		auc  float64                     // psrt train reaches .74 with lr, .75 with fm
	}{
		{"c", func(t *testing.T) []string { return []string{b.compile(t, "cc", "-std=gnu11", "train.c")} }, 0.73},
		{"c++", func(t *testing.T) []string { return []string{b.compile(t, "c++", "-std=c++17", "train.cpp")} }, 0.72},
		{"numpy", func(*testing.T) []string { return []string{python, "-B", "train.py"} }, 0.72},
		{"torch", func(*testing.T) []string { return []string{python, "-B", "train_torch.py"} }, 0.72},
		{"torch deepfm", func(*testing.T) []string { return []string{python, "-B", "train_deepfm.py"} }, 0.77},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := c.run(t)
			out := b.run(t, append(command, addr, b.token, b.train, b.test)...)
			if got := auc(t, out); got < c.auc {
				t.Errorf("AUC %.4f, want %.2f at least; it printed %q", got, c.auc, out)
			}
			wrong := filepath.Join(b.dir, "wrong-token")
			if err := os.WriteFile(wrong, []byte("no token that a server has"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := b.command(append(command, addr, wrong, b.train, b.test)...).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("token")) {
				t.Errorf("with a wrong token: %v, it printed %q", err, out)
			}
			if out, err := b.command(command...).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("usage: ")) {
				t.Errorf("without arguments: %v, it printed %q", err, out)
			}
		})
	}
}

// TestSameAsTrain: DeepFM with PyTorch's layers, on whatever device it has, is as
// accurate as psrt train's. The first steps agree to seven digits; later ones drift apart by what
// the sums' order does, which is why the rate is small.
func TestSameAsTrain(t *testing.T) {
	b := build(t)
	var result struct{ AUC float64 }
	out := b.run(t, b.psrt, "train", "--data", b.train, "--test", b.test, "--model", "deepfm", "--dim", "8", "--optimizer", "adagrad", "--lr", "0.004",
		"--batch", "512", "--epochs", "2", "--no-shuffle", "--seed", "1", "--sync", "bsp", "--dataset", "memory", "--quiet", "--json")
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	addr := b.serve(t, "tables.yaml").Address
	out = b.run(t, python, "-B", "train_deepfm.py", addr, b.token, b.train, b.test)
	t.Logf("psrt train: auc %.4f; PyTorch: %s", result.AUC, out)
	if cudatest.Cards(t) > 0 && !(strings.Contains(out, "device cuda\n") && strings.Contains(out, "rows come and go by ")) {
		t.Errorf("rows and layers were not on a GPU: %s", out)
	}
	if got := auc(t, out); math.Abs(got-result.AUC) > 1e-3 {
		t.Errorf("AUC %.4f with PyTorch, %.4f of psrt train: they differ by more than .001", got, result.AUC)
	}
}

// TestOnDevice: C, and PyTorch through the library, print the same of rows that lie in a device's
// memory (its twin's), of which it has room for some, as of rows in a server's.
func TestOnDevice(t *testing.T) {
	b := build(t)
	for name, command := range map[string][]string{
		"c":            {b.compile(t, "cc", "-std=gnu11", "train.c")},
		"torch deepfm": {python, "-B", "train_deepfm.py"},
	} {
		t.Run(name, func(t *testing.T) {
			on := func(more ...string) string {
				return b.run(t, append(command, b.serve(t, "tables.yaml", more...).Address, b.token, b.train, b.test)...)
			}
			if got, want := on("--hbm-budget", "4MiB", "--hbm-device", "host"), on(); got != want {
				t.Errorf("on the device it prints\n%s\nand else\n%s", got, want)
			}
		})
	}
}

// TestOwnRule trains by the rule of momentum.c.
func TestOwnRule(t *testing.T) {
	b := build(t)
	so := filepath.Join(b.dir, "momentum.so")
	b.run(t, "cc", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-I../rule", "-o", so, "momentum.c")
	tables := filepath.Join(b.dir, "momentum.yaml")
	if err := os.WriteFile(tables, []byte("tables:\n  - {name: w, dim: 1, rule: momentum.so, params: {rate: 2, momentum: 0.5}, init: zero}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.serve(t, tables)
	out := b.run(t, b.compile(t, "cc", "-std=gnu11", "train.c"), s.Address, b.token, b.train, b.test)
	if got := auc(t, out); got < 0.70 {
		t.Errorf("AUC %.4f, want .70 at least", got)
	}
}

// TestPython runs test_psrt.py, which starts servers of its own, by a fake driver, or, with PSRT_GPU set,
// this machine's.
func TestPython(t *testing.T) {
	b := build(t)
	c := b.command(python, "-B", "test_psrt.py")
	driver := cmp.Or(os.Getenv(cuda.Variable), cuda.Library)
	if cudatest.Cards(t) == 0 {
		driver = cudatest.Build(t)
		c.Env = append(c.Env, "PYTHONWARNINGS=error") // of the distribution's PyTorch; another's are its own
	}
	c.Env = append(c.Env, "PSRT="+b.psrt, cuda.Variable+"="+driver, "PSRT_FAKE_CUDA_FENCED=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTutorial runs the program of docs/c-abi.md: whoever types it sees the loss
// fall.
func TestTutorial(t *testing.T) {
	b := build(t)
	doc, err := os.ReadFile("../../../docs/c-abi.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```python\n")
	program, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/c-abi.md has no program in Python")
	}
	addr := b.serve(t, "").Address
	program = strings.NewReplacer("127.0.0.1:7700", addr, `token_file="token"`, "token_file="+strconv.Quote(b.token)).Replace(program)
	path := filepath.Join(b.dir, "app.py")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	c := b.command(python, "-B", "-W", "error", path)
	c.Env = append(c.Env, "PYTHONPATH=.")
	out, err := c.CombinedOutput()
	losses := regexp.MustCompile(`logloss (\d\.\d+)`).FindAllStringSubmatch(string(out), -1)
	if err != nil || len(losses) != 6 {
		t.Fatalf("%v\n%s", err, out)
	}
	first, _ := strconv.ParseFloat(losses[0][1], 64)
	last, _ := strconv.ParseFloat(losses[5][1], 64)
	if first < 0.69 || first > 0.70 || last > 0.55 {
		t.Errorf("the loss goes from %v to %v, want from .693 to below .55", first, last)
	}
}

// TestHeaderIsStrict: psrt.hpp compiles without a warning in every C++ since 17,
// and in two files of one program.
func TestHeaderIsStrict(t *testing.T) {
	b := build(t)
	one, two := filepath.Join(b.dir, "one.cpp"), filepath.Join(b.dir, "two.cpp")
	for path, text := range map[string]string{one: "#include <psrt.hpp>\n#include <psrt.hpp>\nint main() { return 0; }\n", two: "#include <psrt.hpp>\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, std := range []string{"-std=c++17", "-std=c++20"} {
		b.run(t, "c++", std, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-I.", "-I"+b.header, "-o", filepath.Join(b.dir, "two"), one, two, b.library)
	}
}

var built *bench

// build makes the command, the library, where they are not yet, and the data, once.
func build(t *testing.T) *bench {
	t.Helper()
	if built != nil {
		return built
	}
	dir, err := os.MkdirTemp("", "psrt-examples-")
	if err != nil {
		t.Fatal(err)
	}
	programs := cmp.Or(os.Getenv(cudatest.Built), dir)
	b := &bench{dir: dir, psrt: filepath.Join(programs, "psrt"), library: filepath.Join(programs, "libpsrt.so"), token: filepath.Join(dir, "token")}
	if programs == dir {
		b.compileAll(t)
	}
	b.run(t, b.psrt, "gen", "zipf", "--rows", "40000", "--fields", "8", "--vocab", "3000", "--seed", "3", "--split", "8:1:1", "--out", filepath.Join(dir, "clicks.libsvm"))
	b.train, b.test = filepath.Join(dir, "clicks.train.libsvm"), filepath.Join(dir, "clicks.test.libsvm")
	built = b
	return b
}

// compileAll makes the command and the library.
func (b *bench) compileAll(t *testing.T) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	b.header = filepath.Join(root, "cmd/libpsrt")
	link := "-extldflags=-Wl,-soname,libpsrt.so,--version-script=" + filepath.Join(b.header, "libpsrt.map")
	for _, args := range [][]string{
		{"-o", b.psrt, "./cmd/psrt"},
		{"-buildmode=c-shared", "-ldflags=" + link, "-o", b.library, "./cmd/libpsrt"},
	} {
		c := exec.Command("go", append([]string{"build", "-buildvcs=false"}, args...)...)
		c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("PSRT_GPU") != "" {
		python = "python3"
	}
	code := m.Run()
	if built != nil {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// command is a program that finds the library.
func (b *bench) command(args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Dir = ".."
	c.Env = append(os.Environ(), "PSRT_LIBRARY="+b.library, "LD_LIBRARY_PATH="+filepath.Dir(b.library)+":"+os.Getenv("LD_LIBRARY_PATH"))
	return c
}

// run gives what a program prints.
func (b *bench) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c := b.command(args...)
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, &out, &errors)
	}
	return out.String()
}

// compile makes a program of an example, as strictly as a user may.
func (b *bench) compile(t *testing.T, compiler, std, source string) string {
	t.Helper()
	out := filepath.Join(b.dir, strings.ReplaceAll(source, ".", "_"))
	b.run(t, compiler, std, "-O2", "-Wall", "-Wextra", "-Werror", "-I.", "-I"+b.header, "-o", out, source, b.library, "-lm")
	return out
}

type ready struct {
	Address string `json:"address"`
}

// serve starts a server, which ends with the test without leaving a word. Without
// a tables file trainers describe the tables; more are flags.
func (b *bench) serve(t *testing.T, tables string, more ...string) ready {
	t.Helper()
	c := b.command(b.psrt, "serve", "--listen", "127.0.0.1:0", "--token-file", b.token, "--threads", "2")
	c.Args = append(c.Args, more...)
	if tables != "" {
		c.Args = append(c.Args, "--tables", tables)
	}
	var log bytes.Buffer
	c.Stderr = &log
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var r ready
	if err != nil || json.Unmarshal(line, &r) != nil {
		c.Process.Kill()
		c.Wait()
		t.Fatalf("psrt serve said %q (%v): %s", line, err, &log)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("psrt serve: %v: %s", err, &log)
		}
	})
	return r
}

var aucLine = regexp.MustCompile(`(?m)^auc (0\.\d{4})$`)

// auc finds the line in what a trainer printed.
func auc(t *testing.T, out string) float64 {
	t.Helper()
	m := aucLine.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no line \"auc 0.1234\" in %q", out)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

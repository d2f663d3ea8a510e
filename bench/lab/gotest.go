package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tests are packages whose tests are to run in a machine.
type Tests struct {
	Go       string   // the go command
	Root     string   // the checkout
	Packages []string // PATTERN as for go test, or PATTERN:RUN for the tests that match RUN
	Race     bool
	Tags     string
	Args     []string // for the test programs, such as -test.run=X
	Verbose  bool     // show the tests' output even if they pass
	Env      []string // for the compiler
	Timeout  time.Duration
}

// TestProgram is a package's tests, compiled.
type TestProgram struct {
	Package string // import path
	Match   string // value of -test.run; empty for all tests
	Dir     string // the package's folder, in which its tests run
	File    string
}

// Compile makes the test programs in the folder into: on this machine, for the
// guest is slow. Packages without tests give none.
func (t Tests) Compile(ctx context.Context, into string) ([]TestProgram, error) {
	programs, err := t.list(ctx, into)
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		args := append([]string{"test", "-c", "-o", p.File}, t.flags()...)
		if _, err := t.run(ctx, append(args, p.Package)...); err != nil {
			return nil, err
		}
	}
	programs = slices.DeleteFunc(programs, func(p TestProgram) bool {
		_, err := os.Stat(p.File)
		return err != nil
	})
	if len(programs) == 0 {
		return nil, fmt.Errorf("lab: no package with tests in %s", strings.Join(t.Packages, " "))
	}
	return programs, nil
}

// list names the packages' programs, in the order of Packages.
func (t Tests) list(ctx context.Context, into string) ([]TestProgram, error) {
	var programs []TestProgram
	for _, pattern := range t.Packages {
		pattern, match, _ := strings.Cut(pattern, ":")
		args := append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}"}, t.flags()...)
		out, err := t.run(ctx, append(args, pattern)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if !ok {
				continue
			}
			programs = append(programs, TestProgram{name, match, dir, filepath.Join(into, strings.ReplaceAll(name, "/", "-")+".test")})
		}
	}
	return programs, nil
}

func (t Tests) flags() []string {
	var flags []string
	if t.Race {
		flags = append(flags, "-race")
	}
	if t.Tags != "" {
		flags = append(flags, "-tags", t.Tags)
	}
	return flags
}

func (t Tests) run(ctx context.Context, args ...string) (string, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, t.Go, args...)
	c.Dir, c.Env, c.Stderr = t.Root, t.Env, &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("lab: go %s: %w\n  %s", args[0], err, strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "\n  "))
	}
	return string(out), nil
}

// Run runs one test program and prints a line as go test does, after the output
// of what failed, and the devices' state after it. With soft-RoCE a skipped test is a failure: the machine is
// there so that nothing has to be. A real card may lack a feature.
func (t Tests) Run(ctx context.Context, m Machine, p TestProgram, env []string, stdout, stderr io.Writer) (ok bool, err error) {
	args := append([]string{p.File, "-test.v=true", "-test.paniconexit0", "-test.timeout=" + t.Timeout.String()}, t.Args...)
	if p.Match != "" {
		args = append(args, "-test.run="+p.Match)
	}
	j := &judge{w: stdout, verbose: t.Verbose, mayskip: m.Name() != simulated}
	began := time.Now()
	code, err := m.Run(ctx, Command{Args: args, Dir: p.Dir, Env: env, Stdout: j, Stderr: stderr})
	if err != nil {
		return false, err
	}
	if ok = j.close(p.Package, code, time.Since(began)); !ok {
		showState(ctx, m, stdout)
	}
	return ok, nil
}

package allreduce

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed mpi/allreduce.c
var rivalSource []byte

// ErrNoMPI: the rival is not installed.
var ErrNoMPI = errors.New("allreduce: there is no mpirun of OpenMPI, or no cc: apt-get install openmpi-bin gcc, or measure with --rival=false")

// rival is the compiled program.
type rival struct {
	mpirun       string
	dir, program string
	cfg          *Config
}

// said is what it prints of one size.
type said struct {
	micros   float64
	checksum uint32
}

func newRival(ctx context.Context, cfg *Config) (_ *rival, err error) {
	v := &rival{cfg: cfg}
	if v.mpirun = openMPI(ctx); v.mpirun == "" {
		return nil, ErrNoMPI
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, ErrNoMPI
	}
	if v.dir, err = os.MkdirTemp("", "psbench-mpi-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	source := filepath.Join(v.dir, "allreduce.c")
	if err := os.WriteFile(source, rivalSource, 0o600); err != nil {
		return nil, err
	}
	v.program = filepath.Join(v.dir, "allreduce")
	if out, err := exec.CommandContext(ctx, cc, "-O2", "-o", v.program, source, "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("allreduce: cc: %w: %s", err, bytes.TrimSpace(out))
	}
	return v, nil
}

// openMPI finds its mpirun: by its own name where several MPIs are installed.
func openMPI(ctx context.Context) string {
	for _, name := range []string{"mpirun.openmpi", "mpirun"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if out, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil && bytes.Contains(out, []byte("Open MPI")) {
			return path
		}
	}
	return ""
}

func (v *rival) close() error { return os.RemoveAll(v.dir) }

// args of mpirun: as many processes as ranks, over what is measured, else as it is
// by default.
func (v *rival) args() []string {
	a := []string{"-n", strconv.Itoa(v.cfg.Ranks), "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl"}
	if v.cfg.Transport == "tcp" {
		a = append(a, "self,tcp", "--mca", "btl_tcp_if_include", "lo")
	} else {
		a = append(a, "self,vader")
	}
	if os.Geteuid() == 0 {
		a = append(a, "--allow-run-as-root")
	}
	return append(a, v.program)
}

// play is one run over all sizes, in their order.
func (v *rival) play(ctx context.Context, seed uint32) ([]said, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	args := append(v.args(), strconv.FormatUint(uint64(seed), 10))
	for _, n := range v.cfg.Sizes {
		args = append(args, strconv.Itoa(n), strconv.Itoa(v.cfg.iterations(n)))
	}
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, v.mpirun, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its processes then
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("allreduce: mpirun: %w: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	return parse(out.String(), v.cfg.Sizes)
}

func parse(text string, sizes []int) ([]said, error) {
	var all []said
	for line := range strings.Lines(text) {
		var n int
		var s said
		if k, err := fmt.Sscanf(line, "%d %g %x", &n, &s.micros, &s.checksum); k != 3 || len(all) == len(sizes) || n != sizes[len(all)] || !(s.micros > 0) {
			return nil, fmt.Errorf("allreduce: the rival's line %d is %q (%v)", len(all)+1, strings.TrimSpace(line), err)
		}
		all = append(all, s)
	}
	if len(all) != len(sizes) {
		return nil, fmt.Errorf("allreduce: the rival has %d results for %d sizes", len(all), len(sizes))
	}
	return all, nil
}

package probe

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

//go:generate ../../csrc/bpf/compile.sh ../../csrc/bpf/usdt.bpf.c usdt.bpf.o
//go:embed usdt.bpf.o
var usdtObject []byte

// pointArguments is where our points have their arguments: usdt.bpf.c takes
// them from there.
const pointArguments = "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@%rax 8@%r10"

// USDTConfig says whose RDMA is metered.
type USDTConfig struct {
	// PID of a process that uses psrt; 0: this one.
	PID int
	// Queues is how many queue pairs may be metered at once; 0 is 4096. What
	// comes in by more is counted in Reading.Lost.
	Queues int
	// Idle is how long a queue pair may be silent before a table that is half
	// full drops it; 0 is a minute.
	Idle time.Duration
}

// USDT meters the RDMA of a process by the points in csrc/verbs, which tell of
// every batch of completions and requests: per device and queue pair, on cards
// too. It sees what completes: sends and writes with immediates that arrive,
// reads that the process asks for, but not what peers write without a word, of
// which only a device's counters tell.
type USDT struct {
	links    []link.Link
	programs []*ebpf.Program
	maps     []*ebpf.Map
	told     *ebpf.Map
	table    table[queueKey, queueValue]
}

// A uprobe is for CAP_SYS_ADMIN alone.
var usdtWants = wanted{"metering a process's RDMA", []capability{capSysAdmin},
	"Linux 5.15 and newer have what it takes: uprobes with a semaphore and a link"}

// OpenUSDT starts metering. What this machine lacks is a *MissingError.
// Everything goes with the USDT's end, or the process's: nothing is pinned,
// and the points are as if nobody had looked.
func OpenUSDT(cfg USDTConfig) (*USDT, error) {
	cfg.PID = cmp.Or(cfg.PID, os.Getpid())
	if cfg.PID < 0 || cfg.Queues < 0 || cfg.Queues > maxSources || cfg.Idle < 0 {
		return nil, fmt.Errorf("probe: process %d, %d queue pairs, dropped after %v; want a process, 1 to %d or 0 for 4096, and a positive time",
			cfg.PID, cfg.Queues, cfg.Idle, maxSources)
	}
	path, points, err := findPoints(cfg.PID)
	if err != nil {
		return nil, err
	}
	u := &USDT{}
	if err := u.open(cfg, path, points); err != nil {
		return nil, errors.Join(usdtWants.diagnose(err), u.Close())
	}
	return u, nil
}

func (u *USDT) open(cfg USDTConfig, path string, points map[string]point) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(usdtObject))
	if err != nil {
		return err
	}
	if cfg.Queues > 0 {
		spec.Maps["queues"].MaxEntries = uint32(cfg.Queues)
	}
	var kernel struct {
		Completions *ebpf.Program `ebpf:"completions"`
		Requests    *ebpf.Program `ebpf:"requests"`
		Queues      *ebpf.Map     `ebpf:"queues"`
		Told        *ebpf.Map     `ebpf:"told"`
	}
	if err := spec.LoadAndAssign(&kernel, nil); err != nil {
		return err
	}
	u.programs = []*ebpf.Program{kernel.Completions, kernel.Requests}
	u.maps = []*ebpf.Map{kernel.Queues, kernel.Told}
	u.told = kernel.Told
	u.table = newTable(kernel.Queues, cfg.Idle, queueSample)
	file, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	for name, program := range map[string]*ebpf.Program{"completions": kernel.Completions, "requests": kernel.Requests} {
		l, err := file.Uprobe("", program, &link.UprobeOptions{Address: points[name].offset, RefCtrOffset: points[name].semaphore, PID: cfg.PID})
		if err != nil {
			return fmt.Errorf("attaching to psrt:%s in %s: %w", name, path, err)
		}
		u.links = append(u.links, l)
	}
	return nil
}

// findPoints finds our points in the files that a process runs: its program,
// or libpsrt in it.
func findPoints(pid int) (string, map[string]point, error) {
	proc := fmt.Sprintf("/proc/%d", pid)
	paths, err := mappedFiles(proc)
	if err != nil {
		return "", nil, fmt.Errorf("probe: which files process %d runs: %w; a process of another user's needs CAP_SYS_PTRACE", pid, err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue // another user's, or deleted
		}
		list, err := pointsOf(file)
		file.Close()
		if err != nil && !errors.Is(err, errNoPoints) {
			return "", nil, fmt.Errorf("probe: USDT points of %s: %w", path, err)
		}
		points := map[string]point{}
		for _, p := range list {
			if p.provider == "psrt" && p.arguments == pointArguments {
				points[p.name] = p
			}
		}
		if len(points) == 2 {
			return path, points, nil
		}
	}
	return "", nil, &MissingError{What: "the points psrt:completions and psrt:requests", Needed: usdtWants.what, Cause: fs.ErrNotExist,
		Remedy: fmt.Sprintf("process %d runs no psrt built with cgo, or one of another version", pid)}
}

// mappedFiles are the files a process has mapped to run, its program first.
func mappedFiles(proc string) ([]string, error) {
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		return nil, err
	}
	paths := []string{proc + "/exe"}
	known := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		// address permissions offset device inode path
		if f := strings.Fields(lines.Text()); len(f) == 6 && strings.Contains(f[1], "x") && filepath.IsAbs(f[5]) && !known[f[5]] {
			known[f[5]] = true
			paths = append(paths, proc+"/root"+f[5])
		}
	}
	return paths, nil
}

// Cost is what the programs have taken so far, without the two changes between
// user and kernel at a point; see Stats.
func (u *USDT) Cost() (Cost, error) { return cost(u.programs) }

// Close detaches everything.
func (u *USDT) Close() error {
	var errs []error
	for _, l := range u.links {
		errs = append(errs, l.Close())
	}
	u.links = nil
	return errors.Join(append(errs, release(u.programs, u.maps))...)
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"psrt/rdma/feature"
	"psrt/sched/metrics"
)

// Config of an Examine; the zero value is this machine and nothing asked for.
type Config struct {
	Root string // where the machine's files are
	// Look finds a program; nil: in PATH.
	Look func(program string) (string, error)
	// Libraries are directories that come before the usual ones; nil:
	// LD_LIBRARY_PATH.
	Libraries []string

	Dirs   []string // that rows, checkpoints or models go to
	Need   int64    // bytes free in each of them; 0: some
	Memory int64    // bytes that are to be locked
	Listen []string // addresses to listen at: HOST:PORT
	// Interface, a name or a network, is what others are to be reached by.
	Interface string
	Device    string // RDMA device, with the index of its GID, -1 any
	Port, GID int
	Peers     []Peer
	// Within bounds all of it; 0: 4 s.
	Within time.Duration
}

// Peer is somebody to look at: HOST, HOST:PORT, or a rank of a running job.
type Peer struct {
	metrics.Place
	Doctor string // the page of a rank's endpoint with its own findings, "" none
}

const defaultWithin = 4 * time.Second

// examiner is an Examine at work.
type examiner struct {
	machine
	cfg Config
	ctx context.Context
}

// Here examines this machine.
func Here() []Finding { return Examine(context.Background(), Config{GID: -1}) }

// Examine looks at everything at once.
func Examine(ctx context.Context, cfg Config) []Finding {
	if cfg.Look == nil {
		cfg.Look = exec.LookPath
	}
	if cfg.Libraries == nil {
		cfg.Libraries = splitPath(os.Getenv("LD_LIBRARY_PATH"))
	}
	if cfg.Within <= 0 {
		cfg.Within = defaultWithin
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Within)
	defer cancel()
	x := &examiner{machine{cfg.Root}, cfg, ctx}
	groups := []group{
		{name: "features", look: x.features}, {name: "RDMA", look: x.rdma}, {name: "GID", look: x.gid}, {name: "memory", look: x.memory}, {name: "CPU", look: x.governor},
		{name: "network", look: x.network}, {name: "disks", look: x.disks}, {name: "ports", look: x.listening}, {name: "kernel", look: x.kernel}, {name: "GPU", look: x.gpus}, {name: nvlinkName, look: x.nvlink},
	}
	groups = append(append(groups, x.directories()...), x.libraries()...)
	groups = append(groups, group{name: "launchers", look: x.launchers}, group{name: "peers", look: x.peers})
	found := make([]chan []Finding, len(groups))
	for i, g := range groups {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- g.look() }()
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(over) }) })
	defer stop()
	var all []Finding
	for i, g := range groups {
		select {
		case f := <-found[i]:
			all = append(all, f...)
			continue
		default:
		}
		select {
		case f := <-found[i]:
			all = append(all, f...)
		case <-over:
			all = append(all, x.unfinished(g))
		}
	}
	return all
}

// group is what is looked at by one goroutine, and named where that does not come back:
// what a file system may keep waiting has one for each of its kind.
type group struct {
	name  string
	look  func() []Finding
	asked bool
}

// grace is for groups whose own end is the same.
const grace = 200 * time.Millisecond

// unfinished is a group that did not come back: why is not known, but how busy the
// machine is.
func (x *examiner) unfinished(g group) Finding {
	f := Finding{Name: g.name, State: Warn, Asked: g.asked, Figure: fmt.Sprintf("not known: looking at it has not ended after %v", x.cfg.Within), Mend: "dmesg; mount; psrt doctor again"}
	words := strings.Fields(x.text("proc/loadavg"))
	if len(words) == 0 {
		return f
	}
	f.Figure += fmt.Sprintf("; the load is %s on %d CPUs", words[0], runtime.NumCPU())
	if load, err := strconv.ParseFloat(words[0], 64); err == nil && load > float64(runtime.NumCPU()) {
		f.Mend = "psrt doctor again when this machine is less busy: uptime; top"
	}
	return f
}

func (x *examiner) features() (all []Finding) {
	for _, a := range feature.NewProber(x.root).Report(feature.All()) {
		if a.Test.Name != feature.LockedMemory.Name { // memory has more to say
			all = append(all, tried(a))
		}
	}
	return all
}

func tried(a feature.Answer) Finding {
	var no *feature.MissingError
	switch {
	case a.Err == nil:
		return Finding{Name: a.Test.Name, State: OK, Figure: a.Test.Requirement}
	case errors.As(a.Err, &no):
		return Finding{Name: a.Test.Name, State: Missing, Figure: no.Detail, Mend: a.Test.Remedy}
	}
	return Finding{Name: a.Test.Name, State: Warn, Figure: a.Err.Error()}
}

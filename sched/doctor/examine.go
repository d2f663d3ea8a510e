package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	groups := []struct {
		name string
		look func() []Finding
	}{
		{"features", x.features}, {"RDMA", x.rdma}, {"GID", x.gid}, {"memory", x.memory}, {"CPU", x.governor}, {"network", x.network}, {"disks", x.disks},
		{"directories", x.directories}, {"ports", x.listening}, {"kernel", x.kernel}, {"GPU", x.gpus}, {"libraries", x.libraries}, {"launchers", x.launchers}, {"peers", x.peers},
	}
	found := make([]chan []Finding, len(groups))
	for i, g := range groups {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- g.look() }()
	}
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
		case <-ctx.Done(): // a mount or a file of /proc that hangs
			select {
			case f := <-found[i]:
				all = append(all, f...)
			case <-time.After(grace):
				all = append(all, Finding{Name: g.name, State: Warn, Figure: fmt.Sprintf("did not come to an end within %v: a directory on a file system that hangs?", cfg.Within), Mend: "dmesg; mount"})
			}
		}
	}
	return all
}

// grace is for groups whose own end is the same.
const grace = 200 * time.Millisecond

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

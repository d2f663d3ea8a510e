package probe

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:generate ../../csrc/bpf/compile.sh ../../csrc/bpf/roce.bpf.c roce.bpf.o
//go:embed roce.bpf.o
var roceObject []byte

// maxSources bounds RoCEConfig.Sources: 600 bytes of the kernel's each.
const maxSources = 1 << 20

// RoCEConfig says where RoCE v2 is metered.
type RoCEConfig struct {
	// Devices of soft-RoCE, by name; none, and no Interfaces: all there are.
	Devices []string
	// Interfaces, by name, besides those under Devices.
	Interfaces []string
	// Sources is how many may be metered at once; 0 is 4096. What comes from
	// more is counted in Reading.Lost.
	Sources int
	// Idle is how long a source may be silent before a table that is half full
	// drops it; 0 is a minute.
	Idle time.Duration

	attach []form // nil: the first that the kernel has
}

// RoCE meters RoCE v2 packets as they come in by an interface of this network
// namespace: per address of the sender and queue pair of ours. It sees what
// the kernel's network sees: soft-RoCE, but not a card's own RDMA, nor what a
// device sends to itself.
type RoCE struct {
	links    []link.Link
	form     form
	programs []*ebpf.Program
	maps     []*ebpf.Map
	missed   *ebpf.Map
	table    table[flowKey, flowValue]
}

var roceWants = wanted{"metering RoCE v2", []capability{capBPF, capPerfmon, capNetAdmin},
	"Linux 5.15 and newer have what it takes: tcx, or XDP by a link"}

// form is a way to have a program look at the packets of an interface. All go
// with their file descriptor; a filter of tc made by netlink would stay.
type form int

const (
	formTCX form = iota // Linux 6.6
	formXDP             // generic: a packet is made linear first, where it is not
)

func (f form) String() string { return [...]string{"tcx", "XDP (generic)"}[f] }

// OpenRoCE starts metering. What this machine lacks is a *MissingError.
// Everything goes with the RoCE's end, or the process's: nothing is pinned.
func OpenRoCE(cfg RoCEConfig) (*RoCE, error) {
	if cfg.Sources < 0 || cfg.Sources > maxSources || cfg.Idle < 0 {
		return nil, fmt.Errorf("probe: %d sources of RoCE, dropped after %v; want 1 to %d, or 0 for 4096, and a positive time", cfg.Sources, cfg.Idle, maxSources)
	}
	indexes, err := cfg.interfaces()
	if err != nil {
		return nil, err
	}
	r := &RoCE{}
	if err := r.open(cfg, indexes); err != nil {
		return nil, errors.Join(diagnoseRoCE(err), r.Close())
	}
	return r, nil
}

func diagnoseRoCE(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return &MissingError{What: "an interface without an XDP program of others", Needed: roceWants.what, Cause: err,
			Remedy: "detach it (ip link set dev NAME xdp off), or run Linux 6.6 and newer, where tcx has room for many"}
	}
	return roceWants.diagnose(err)
}

// interfaces are the indexes of those to meter, each once.
func (cfg RoCEConfig) interfaces() (map[string]int, error) {
	names, err := softDevices(cfg.Devices, len(cfg.Interfaces) == 0)
	if err != nil {
		return nil, err
	}
	indexes := map[string]int{}
	for _, name := range append(names, cfg.Interfaces...) {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("probe: metering RoCE v2 of network interface %q, which is not in this network namespace; ip link lists them: %w", name, err)
		}
		indexes[name] = i.Index
	}
	return indexes, nil
}

func (r *RoCE) open(cfg RoCEConfig, indexes map[string]int) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(roceObject))
	if err != nil {
		return err
	}
	if cfg.Sources > 0 {
		spec.Maps["flows"].MaxEntries = uint32(cfg.Sources)
	}
	var kernel struct {
		Skb    *ebpf.Program `ebpf:"count_skb"`
		Frame  *ebpf.Program `ebpf:"count_frame"`
		Flows  *ebpf.Map     `ebpf:"flows"`
		Missed *ebpf.Map     `ebpf:"missed"`
	}
	if err := spec.LoadAndAssign(&kernel, nil); err != nil {
		return err
	}
	r.programs = []*ebpf.Program{formTCX: kernel.Skb, formXDP: kernel.Frame}
	r.maps = []*ebpf.Map{kernel.Flows, kernel.Missed}
	r.missed = kernel.Missed
	r.table = newTable(kernel.Flows, cfg.Idle, flowSample(newInterfaces()))

	forms := cfg.attach
	if forms == nil {
		forms = []form{formTCX, formXDP}
	}
	var refused error
	for _, r.form = range forms {
		if refused = r.attach(indexes); !errors.Is(refused, ebpf.ErrNotSupported) {
			break
		}
	}
	return refused
}

// attach attaches to all interfaces, or to none.
func (r *RoCE) attach(indexes map[string]int) error {
	for name, index := range indexes {
		var l link.Link
		var err error
		switch r.form {
		case formTCX:
			l, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: r.programs[formTCX], Attach: ebpf.AttachTCXIngress})
		case formXDP:
			l, err = link.AttachXDP(link.XDPOptions{Interface: index, Program: r.programs[formXDP], Flags: link.XDPGenericMode})
		}
		if err != nil {
			return errors.Join(fmt.Errorf("attaching to %s by %v: %w", name, r.form, err), r.detach())
		}
		r.links = append(r.links, l)
	}
	return nil
}

func (r *RoCE) detach() error {
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	r.links = nil
	return errors.Join(errs...)
}

// Form says how the programs are attached, for people.
func (r *RoCE) Form() string { return r.form.String() }

// Cost is what the programs have taken so far; see Stats.
func (r *RoCE) Cost() (Cost, error) { return cost(r.programs) }

// Close detaches everything.
func (r *RoCE) Close() error { return errors.Join(r.detach(), release(r.programs, r.maps)) }

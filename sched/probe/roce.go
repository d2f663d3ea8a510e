package probe

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
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
	links    []io.Closer
	form     form
	programs []*ebpf.Program
	maps     []*ebpf.Map
	missed   *ebpf.Map
	table    table[flowKey, flowValue]
}

// CAP_NET_ADMIN would do in place of CAP_NET_RAW where there is tcx.
var roceWants = wanted{"metering RoCE v2", []capability{capBPF, capPerfmon, capNetRaw},
	"Linux 5.14 and newer have what it takes: atomics in programs, entries that are read and deleted at once"}

// form is a way to have a program look at the packets of an interface. Both go
// with their file descriptor, unlike a filter of tc made by netlink, and leave
// packets as they are, unlike generic XDP, which copies each: in the lab
// traffic took twice as long under it.
type form int

const (
	formTCX    form = iota // Linux 6.6
	formSocket             // a packet socket that takes no packet
)

func (f form) String() string { return [...]string{"tcx", "packet socket"}[f] }

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
		return nil, errors.Join(roceWants.diagnose(err), r.Close())
	}
	return r, nil
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
	forms := []form{formTCX, formSocket}
	if cfg.attach != nil {
		forms = cfg.attach
	}
	var refused error
	for _, r.form = range forms {
		if refused = r.attach(spec.Copy(), indexes); refused == nil {
			r.table = newTable(r.maps[0], cfg.Idle, flowSample(newInterfaces()))
			return nil
		}
	}
	return refused
}

// attach loads a form's program and attaches it to all interfaces.
func (r *RoCE) attach(spec *ebpf.CollectionSpec, indexes map[string]int) error {
	name := [...]string{"count_filter", "count_socket"}[r.form]
	maps.DeleteFunc(spec.Programs, func(other string, _ *ebpf.ProgramSpec) bool { return other != name })
	kernel, err := ebpf.NewCollection(spec)
	if err != nil {
		return err
	}
	program := kernel.Programs[name]
	r.programs = []*ebpf.Program{program}
	r.maps = []*ebpf.Map{kernel.Maps["flows"], kernel.Maps["missed"], kernel.Maps[".rodata"]}
	r.missed = kernel.Maps["missed"]
	for name, index := range indexes {
		var l io.Closer
		if r.form == formTCX {
			l, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXIngress})
		} else {
			l, err = watch(index, program)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("attaching to %s by %v: %w", name, r.form, err), r.Close())
		}
		r.links = append(r.links, l)
	}
	return nil
}

// Form says how the programs are attached, for people.
func (r *RoCE) Form() string { return r.form.String() }

// Cost is what the programs have taken so far; see Stats.
func (r *RoCE) Cost() (Cost, error) { return cost(r.programs) }

// Close detaches everything.
func (r *RoCE) Close() error {
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	errs = append(errs, release(r.programs, r.maps))
	r.links, r.programs, r.maps = nil, nil, nil
	return errors.Join(errs...)
}

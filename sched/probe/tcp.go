package probe

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

//go:generate ../../csrc/bpf/compile.sh ../../csrc/bpf/tcp.bpf.c tcp.bpf.o
//go:embed tcp.bpf.o
var tcpObject []byte

// maxPorts is the size of the set of ports in tcp.bpf.c.
const maxPorts = 64

// TCPConfig says which connections are metered.
type TCPConfig struct {
	// Ports of ours that workers connect to; none: all connections of this
	// network namespace.
	Ports []uint16
}

// TCP meters the connections of the network namespace of the thread that opens
// it. It costs the data path nothing: the kernel counts anyway. A walk over the
// connections reads it, and one event when a connection closes.
type TCP struct {
	walk, ending link.Link
	programs     []*ebpf.Program
	maps         []*ebpf.Map
	lost         *ebpf.Map
	closed       *ringbuf.Reader
	record       ringbuf.Record
	buffer       bytes.Buffer
	conns        connections
}

var tcpWants = wanted{"metering TCP connections", []capability{capBPF, capPerfmon},
	"Linux 5.12 and newer have what it takes: iter/tcp, tp_btf, a socket's cookie"}

// OpenTCP starts metering. What this machine lacks is a *MissingError.
// Everything goes with the TCP's end, or the process's: nothing is pinned.
func OpenTCP(cfg TCPConfig) (*TCP, error) {
	if len(cfg.Ports) > maxPorts {
		return nil, fmt.Errorf("probe: %d ports to meter, the most are %d; give none to meter all connections", len(cfg.Ports), maxPorts)
	}
	t := &TCP{conns: newConnections(newInterfaces().of)}
	if err := t.open(cfg); err != nil {
		return nil, errors.Join(tcpWants.diagnose(err), t.Close())
	}
	return t, nil
}

func (t *TCP) open(cfg TCPConfig) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(tcpObject))
	if err != nil {
		return err
	}
	inode, err := networkInode()
	if err != nil {
		return err
	}
	every := uint32(0)
	if len(cfg.Ports) == 0 {
		every = 1
	}
	for name, value := range map[string]uint32{"network_inode": inode, "every_port": every} {
		if err := spec.Variables[name].Set(value); err != nil {
			return err
		}
	}
	var kernel struct {
		Walk   *ebpf.Program `ebpf:"walk"`
		Close  *ebpf.Program `ebpf:"close_one"`
		Ports  *ebpf.Map     `ebpf:"ports"`
		Closed *ebpf.Map     `ebpf:"closed"`
		Lost   *ebpf.Map     `ebpf:"lost"`
	}
	if err := spec.LoadAndAssign(&kernel, nil); err != nil {
		return err
	}
	t.programs = []*ebpf.Program{kernel.Walk, kernel.Close}
	t.maps = []*ebpf.Map{kernel.Ports, kernel.Closed, kernel.Lost}
	t.lost = kernel.Lost
	for _, p := range cfg.Ports {
		if err := kernel.Ports.Put(p, uint8(1)); err != nil {
			return err
		}
	}
	if t.closed, err = ringbuf.NewReader(kernel.Closed); err != nil {
		return err
	}
	// The endings first: a connection that closes between the two is told of.
	if t.ending, err = link.AttachTracing(link.TracingOptions{Program: kernel.Close}); err != nil {
		return err
	}
	t.walk, err = link.AttachIter(link.IterOptions{Program: kernel.Walk})
	return err
}

// Read walks the connections, then takes in those that have closed: a count
// from the ring is the last one of its connection.
func (t *TCP) Read(r *Reading) error {
	r.reset()
	iter, ok := t.walk.(*link.Iter)
	if !ok {
		return fmt.Errorf("probe: the walk over connections is a %T", t.walk)
	}
	file, err := iter.Open()
	if err != nil {
		return fmt.Errorf("probe: walking TCP connections: %w", err)
	}
	t.buffer.Reset()
	_, err = io.Copy(&t.buffer, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("probe: walking TCP connections: %w", err)
	}
	t.conns.begin()
	for b := t.buffer.Bytes(); len(b) > 0; {
		c, rest, err := decodeConnection(b)
		if err != nil {
			return err
		}
		t.conns.see(c)
		b = rest
	}
	if err := t.drain(); err != nil {
		return err
	}
	var lost uint64
	if err := t.lost.Lookup(uint32(0), &lost); err != nil {
		return fmt.Errorf("probe: reading the count of lost connections: %w", err)
	}
	t.conns.report(r)
	r.Lost += lost

	return nil
}

func (t *TCP) drain() error {
	t.closed.SetDeadline(past)
	for {
		err := t.closed.ReadInto(&t.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("probe: reading closed TCP connections: %w", err)
		}
		c, _, err := decodeConnection(t.record.RawSample)
		if err != nil {
			return err
		}
		t.conns.see(c)
	}
}

// Cost is what the programs have taken so far; see Stats.
func (t *TCP) Cost() (Cost, error) { return cost(t.programs) }

// Close detaches everything.
func (t *TCP) Close() error {
	var errs []error
	for _, l := range []link.Link{t.ending, t.walk} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if t.closed != nil {
		errs = append(errs, t.closed.Close())
	}
	return errors.Join(append(errs, release(t.programs, t.maps))...)
}

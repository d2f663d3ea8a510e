package discover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoRDMA says that the kernel knows no RDMA device at all.
var ErrNoRDMA = errors.New("discover: the kernel has no RDMA devices")

const classDir = "sys/class/infiniband"

// tree is the folder that holds sys and dev; "" is "/".
type tree string

func (t tree) path(parts ...string) string {
	return filepath.Join(append([]string{"/", string(t)}, parts...)...)
}

// text reads a small file without the white space around it.
func (t tree) text(parts ...string) (string, error) {
	f, err := os.Open(t.path(parts...))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimSpace(string(b)), err
}

// maybe is text, or "" where the file is not there or has no answer.
func (t tree) maybe(parts ...string) string {
	s, err := t.text(parts...)
	if err != nil {
		return ""
	}
	return s
}

func (t tree) names(parts ...string) ([]string, error) {
	entries, err := os.ReadDir(t.path(parts...))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Scan reads the RDMA devices whose sys and dev lie under root ("" is "/").
// A host without any is ErrNoRDMA; a device that cannot be read is in the list
// with its Problem; one that goes away meanwhile is not.
func Scan(root string) ([]Device, error) {
	t := tree(root)
	names, err := t.names(classDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("discover: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: %s is empty or missing; load the card's driver, or rdma_rxe and then: rdma link add rxe0 type rxe netdev eth0",
			ErrNoRDMA, t.path(classDir))
	}
	chars := t.chars()
	var list []Device
	for _, name := range names {
		d := t.device(name)
		if _, err := os.Stat(t.path(classDir, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d.Char = chars[name]
		if d.Char != "" {
			_, err := os.Stat(t.path("dev/infiniband", d.Char))
			d.CharMissing = errors.Is(err, fs.ErrNotExist)
		}
		list = append(list, d)
	}
	return list, nil
}

// chars gives each device's character device.
func (t tree) chars() map[string]string {
	const dir = "sys/class/infiniband_verbs"
	found := map[string]string{}
	names, _ := t.names(dir) // without it no device has one, which Choose tells
	for _, name := range names {
		if device := t.maybe(dir, name, "ibdev"); device != "" {
			found[device] = name
		}
	}
	return found
}

func (t tree) device(name string) Device {
	d := Device{Name: name, NUMANode: -1, NodeGUID: t.maybe(classDir, name, "node_guid"), Parent: t.netdev(classDir, name, "parent")}
	if _, kind, ok := strings.Cut(t.maybe(classDir, name, "node_type"), ": "); ok {
		d.NodeType = kind
	}
	bus := filepath.Join(classDir, name, "device")
	if d.Parent != "" {
		bus = filepath.Join("sys/class/net", d.Parent, "device")
	}
	if n, err := strconv.Atoi(t.maybe(bus, "numa_node")); err == nil && n >= 0 {
		d.NUMANode = n
	}
	d.PCI = t.pci(bus)
	ports, err := t.names(classDir, name, "ports")
	d.Problem = err
	for _, p := range ports {
		number, err := strconv.Atoi(p)
		if err != nil || number < 1 || number > 255 {
			d.Problem = fmt.Errorf("discover: %s has a port %.20q, want a number from 1 to 255", name, p)
			continue
		}
		port, err := t.port(filepath.Join(classDir, name, "ports", p), number)
		if err != nil {
			d.Problem = err
			continue
		}
		d.Ports = append(d.Ports, port)
	}
	return d
}

// pci resolves a device link to the path below the root complex.
func (t tree) pci(link string) string {
	p, err := filepath.EvalSymlinks(t.path(link))
	if err != nil {
		return ""
	}
	at := strings.LastIndex(p, "/pci")
	if at < 0 {
		return ""
	}
	return p[at+1:]
}

// netdev reads the name of an interface. Names become parts of paths, so what
// cannot be a name is none.
func (t tree) netdev(parts ...string) string {
	s := t.maybe(parts...)
	if len(s) > 15 || strings.ContainsAny(s, "/ \n\x00") || s == "." || s == ".." {
		return ""
	}
	return s
}

//go:build cgo

package verbs

// #cgo CFLAGS: -O2 -std=gnu11 -Wall -Wextra
// #cgo LDFLAGS: -ldl -lpthread
// #include "verbs.h"
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"
)

// The mirrored structs have the C sizes, or this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Send{})-C.sizeof_struct_psrt_send]
	_ = [1]struct{}{}[unsafe.Sizeof(Recv{})-C.sizeof_struct_psrt_recv]
	_ = [1]struct{}{}[unsafe.Sizeof(Done{})-C.sizeof_struct_psrt_done]
)

// Load makes sure that libibverbs is there; it may be called any number of
// times. Every other entry needs one Load that returned nil before it.
func Load() error {
	var why [256]C.char
	if C.psrt_verbs_load(&why[0], C.int(len(why))) != 0 {
		return fmt.Errorf("%w: %s; install rdma-core's libibverbs1 and ibverbs-providers", ErrUnavailable, C.GoString(&why[0]))
	}
	return nil
}

// Devices names the RDMA devices of this host; at most what fits 16 KiB.
func Devices() ([]string, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	var names [16 << 10]byte
	n := C.psrt_verbs_devices((*C.char)(unsafe.Pointer(&names[0])), C.int(len(names)))
	if n < 0 {
		return nil, failed("list devices", int(n))
	}
	parts := bytes.SplitN(names[:], []byte{0}, int(n)+1)
	list := make([]string, n)
	for i := range list {
		list[i] = string(parts[i])
	}
	return list, nil
}

// Context is an open device with one protection domain.
type Context struct{ c *C.struct_psrt_ctx }

// Open opens a device by its exact name.
func Open(name string) (*Context, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	z := append([]byte(name), 0)
	c := &Context{}
	var out *C.struct_psrt_ctx
	if r := C.psrt_verbs_open((*C.char)(unsafe.Pointer(&z[0])), &out); r != 0 {
		return nil, failed("open device "+name, int(r))
	}
	c.c = out
	return c, nil
}

// Close fails while regions, queues or queue pairs are left; they leak then.
func (c *Context) Close() error { return failed("close device", int(C.psrt_verbs_close(c.c))) }

func (c *Context) Attr() (DeviceAttr, error) {
	var a C.struct_psrt_device_attr
	if r := C.psrt_verbs_attr(c.c, &a); r != 0 {
		return DeviceAttr{}, failed("query device", int(r))
	}
	return DeviceAttr{MaxMRSize: uint64(a.max_mr_size), MaxQPWR: int32(a.max_qp_wr), MaxCQE: int32(a.max_cqe),
		MaxResponderReads: int32(a.max_qp_rd_atom), MaxInitReads: int32(a.max_qp_init_rd_atom),
		Atomics: int32(a.atomics), Ports: int32(a.ports), MaxSRQWR: int32(a.max_srq_wr),
		OnDemand: C.psrt_verbs_on_demand(c.c) != 0}, nil
}

// Port describes a port; they are numbered from 1.
func (c *Context) Port(port int) (PortAttr, error) {
	var a C.struct_psrt_port_attr
	if r := C.psrt_verbs_port(c.c, C.int(port), &a); r != 0 {
		return PortAttr{}, failed(fmt.Sprintf("query port %d", port), int(r))
	}
	return PortAttr{State: uint32(a.state), ActiveMTU: uint32(a.active_mtu), LinkLayer: uint32(a.link_layer),
		LID: uint32(a.lid), GIDs: uint32(a.gids), MaxMessage: uint32(a.max_msg)}, nil
}

// GID reads one entry of a port's table; empty entries are an error.
func (c *Context) GID(port, index int) (GID, error) {
	var g C.struct_psrt_gid
	if r := C.psrt_verbs_gid(c.c, C.int(port), C.int(index), &g); r != 0 {
		return GID{}, failed(fmt.Sprintf("query gid %d of port %d", index, port), int(r))
	}
	return gidOf(&g), nil
}

// GIDs reads the entries of a port's table that are set, by one system call.
func (c *Context) GIDs(port int) ([]GID, error) {
	var all [C.PSRT_GIDS]C.struct_psrt_gid
	n := C.psrt_verbs_gids(c.c, C.int(port), &all[0], C.int(len(all)))
	if n < 0 {
		return nil, failed(fmt.Sprintf("query the gids of port %d", port), int(n))
	}
	list := make([]GID, n)
	for i := range list {
		list[i] = gidOf(&all[i])
	}
	return list, nil
}

func gidOf(g *C.struct_psrt_gid) GID {
	out := GID{Type: uint32(g._type), IfIndex: uint32(g.ifindex), Index: uint32(g.index)}
	for i := range out.Raw {
		out.Raw[i] = byte(g.raw[i])
	}
	return out
}

// AsyncEvent takes the next event without waiting; ok is false when there is
// none.
func (c *Context) AsyncEvent() (e Event, ok bool, err error) {
	var kind C.int32_t
	var number C.uint32_t
	var text [96]C.char
	r := C.psrt_verbs_async(c.c, &kind, &number, &text[0], C.int(len(text)))
	if r <= 0 {
		return Event{}, false, failed("get async event", int(r))
	}
	return Event{Type: int32(kind), Number: uint32(number), Text: C.GoString(&text[0])}, true, nil
}

// MR is registered memory.
type MR struct {
	mr         unsafe.Pointer
	LKey, RKey uint32
}

// Access of a registration.
const (
	AccessRemoteRead = 1 << iota
	AccessRemoteWrite
	AccessRemoteAtomic
	AccessOnDemand // the device pages; needs DeviceAttr.OnDemand
)

// Register pins memory that is not Go heap; local write access is implied.
func (c *Context) Register(addr, length uint64, access int) (MR, error) {
	var m unsafe.Pointer
	var lkey, rkey C.uint32_t
	r := C.psrt_verbs_reg(c.c, C.uint64_t(addr), C.uint64_t(length), C.int(access), &m, &lkey, &rkey)
	if r != 0 {
		return MR{}, failed(fmt.Sprintf("register %d bytes", length), int(r))
	}
	return MR{mr: m, LKey: uint32(lkey), RKey: uint32(rkey)}, nil
}

// HasDMABuf says whether the library knows dma-bufs; the device may not.
func HasDMABuf() bool { return Load() == nil && C.psrt_verbs_has_dmabuf() != 0 }

// RegisterDMABuf registers memory of another device: length bytes from offset
// of the dma-buf fd, which requests address from addr on.
func (c *Context) RegisterDMABuf(fd int, offset, addr, length uint64, access int) (MR, error) {
	var m unsafe.Pointer
	var lkey, rkey C.uint32_t
	r := C.psrt_verbs_reg_dmabuf(c.c, C.int(fd), C.uint64_t(offset), C.uint64_t(addr), C.uint64_t(length), C.int(access), &m, &lkey, &rkey)
	if r != 0 {
		return MR{}, failed(fmt.Sprintf("register %d bytes of a dma-buf", length), int(r))
	}
	return MR{mr: m, LKey: uint32(lkey), RKey: uint32(rkey)}, nil
}

func (m MR) Close() error { return failed("deregister memory", int(C.psrt_verbs_dereg(m.mr))) }

// StatusText is the library's name of a completion's status.
func StatusText(status uint32) string {
	if Load() != nil {
		return fmt.Sprintf("status %d", status)
	}
	return C.GoString(C.psrt_verbs_status_text(C.uint32_t(status)))
}

package verbs

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
	"psrt/rdma/verbs/memlock"
)

// region is registered memory. Peers address it by its real addresses: that is
// what the device translates.
type region struct {
	dom    *Domain
	mr     ibv.MR
	bytes  []byte
	start  uint64
	device bool // the CPU must not touch the bytes
	closed atomic.Bool
}

func (r *region) holds(start, n uint64) bool {
	return start >= r.start && start-r.start <= uint64(len(r.bytes)) && n <= uint64(len(r.bytes))-(start-r.start)
}

func (r *region) Bytes() []byte { return r.bytes }

func (r *region) Remote() rdma.RemoteRange {
	return rdma.RemoteRange{Key: uint64(r.mr.RKey), Addr: r.start, Len: uint64(len(r.bytes))}
}

// Close takes the memory back from the device: from then on it is not touched.
func (r *region) Close() error {
	r.dom.life.RLock()
	defer r.dom.life.RUnlock()
	if r.closed.Swap(true) {
		return nil
	}
	d := r.dom
	d.mu.Lock()
	d.regions.Store(d.regions.Load().Without(r))
	d.mu.Unlock()
	d.stats.liveRegions.Add(-1)
	return r.mr.Close()
}

// Register pins the memory and lends it to peers.
func (d *Domain) Register(m rdma.Memory, access rdma.Access, purpose string) (rdma.Region, error) {
	b := m.Bytes()
	if len(b) == 0 {
		return nil, fmt.Errorf("verbs: register %q: no bytes: %w", purpose, rdma.ErrInvalid)
	}
	if access&^rdma.AccessAll != 0 {
		return nil, fmt.Errorf("verbs: register %q: unknown access bits %#x: %w", purpose, access&^rdma.AccessAll, rdma.ErrInvalid)
	}
	// Pinning takes seconds where it is much: Close waits for it, nobody else.
	d.life.RLock()
	defer d.life.RUnlock()
	ended := fmt.Errorf("verbs: register %q: %w", purpose, rdma.ErrClosed)
	if d.gone {
		return nil, ended
	}
	r := &region{dom: d, bytes: b, start: addressOf(b)}
	_, r.device = m.(rdma.DeviceMemory)
	var err error
	if r.mr, err = d.register(m, r.start, uint64(len(b)), d.rights(access)); err != nil {
		return nil, fmt.Errorf("verbs: %s: register %q: %w", d.cfg.Device, purpose, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(ended, r.mr.Close())
	}
	d.regions.Store(d.regions.Load().With(r.start, uint64(len(b)), r))
	d.stats.liveRegions.Add(1)
	return r, nil
}

// register asks the device. Host memory must be pinned, which the kernel may
// not allow to so much; a device that can page takes it unpinned then.
func (d *Domain) register(m rdma.Memory, addr, size uint64, access int) (ibv.MR, error) {
	if dm, ok := m.(rdma.DeviceMemory); ok {
		if fd, offset, ok := dm.DMABuf(); ok {
			mr, err := d.ctx.RegisterDMABuf(fd, uint64(offset), addr, size, access)
			if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
				err = fmt.Errorf("%w: %w; copy through host memory", err, rdma.ErrNotSupported)
			}
			return mr, err
		}
		return d.ctx.Register(addr, size, access) // no page of the host is locked
	}
	var limit *memlock.LimitError
	if err := memlock.Check(int64(size)); errors.As(err, &limit) {
		if d.attr.OnDemand {
			return d.ctx.Register(addr, size, access|ibv.AccessOnDemand)
		}
		return ibv.MR{}, err
	}
	mr, err := d.ctx.Register(addr, size, access)
	return mr, memlock.Explain(err, int64(size))
}

// rights leaves atomics out where the device has none: some refuse the region
// else.
func (d *Domain) rights(a rdma.Access) int {
	var bits int
	if a&rdma.AccessRemoteRead != 0 {
		bits |= ibv.AccessRemoteRead
	}
	if a&rdma.AccessRemoteWrite != 0 {
		bits |= ibv.AccessRemoteWrite
	}
	if a&rdma.AccessRemoteAtomic != 0 && d.attr.Atomics != 0 {
		bits |= ibv.AccessRemoteAtomic
	}
	return bits
}

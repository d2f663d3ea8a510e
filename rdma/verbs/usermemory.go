package verbs

import (
	"context"
	"fmt"
	"os"

	"psrt/rdma"
	"psrt/rdma/verbs/regcache"
)

// UserMemory registers memory that is not ours, buffer by buffer as transfers
// need it, and keeps the registrations for the next time. The owner must tell
// Forget before it unmaps such memory.
type UserMemory struct{ cache *regcache.Cache[rdma.Region] }

// UserMemory makes a cache of at most maxCount registrations and maxBytes.
// They can be read and written by peers as access says. It must be closed
// before the domain is.
func (d *Domain) UserMemory(access rdma.Access, maxBytes uint64, maxCount int) (*UserMemory, error) {
	c, err := regcache.New(regcache.Config[rdma.Region]{
		Register: func(addr, length uint64) (rdma.Region, error) {
			return d.Register(foreign(memoryAt(addr, length)), access, "user memory")
		},
		PageBytes: uint64(os.Getpagesize()), MaxBytes: maxBytes, MaxCount: maxCount,
	})
	if err != nil {
		return nil, fmt.Errorf("verbs: %s: %w", d.cfg.Device, err)
	}
	return &UserMemory{cache: c}, nil
}

// Lease makes b usable as Local, and as Remote by the region of the lease's
// Handle, until the lease is released. b must not be Go's heap.
func (u *UserMemory) Lease(b []byte) (regcache.Lease[rdma.Region], error) {
	return u.cache.Get(addressOf(b), uint64(len(b)))
}

// Forget ends the registrations of any part of b. b may be unmapped when busy,
// the leases of it that have not ended, is 0.
func (u *UserMemory) Forget(b []byte) (busy int, err error) {
	return u.cache.Invalidate(addressOf(b), uint64(len(b)))
}

// Stats tells what is registered.
func (u *UserMemory) Stats() regcache.Stats { return u.cache.Stats() }

// Close waits until the last lease has ended, or ctx has.
func (u *UserMemory) Close(ctx context.Context) error { return u.cache.Close(ctx) }

// foreign is memory of which only the address is known.
type foreign []byte

func (m foreign) Bytes() []byte                { return m }
func (foreign) Descriptor() (int, int64, bool) { return -1, 0, false }
func (foreign) NUMANode() int                  { return -1 }

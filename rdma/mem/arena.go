package mem

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
	"psrt/rdma/invariant"
)

// Arena is one mapping. It implements rdma.Memory. Alloc and Close are safe
// for concurrent use; what is written to the bytes is the caller's affair.
type Arena struct {
	info  Info
	bytes []byte // the Size asked for
	m     mapping
	check invariant.CloseChecker

	mu     sync.Mutex
	used   int // bytes handed out by Alloc
	closed bool
}

// New maps an arena as cfg says, or explains with figures why it cannot. The
// bytes are zero.
func New(cfg Config) (*Arena, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	bind, node, nodeWhy := placement(&cfg)
	info := Info{Purpose: cfg.Purpose, Shared: cfg.Share, Node: node, NodeWhy: nodeWhy, LockedWhy: "not asked for"}
	m, err := mapBest(&cfg, bind, &info)
	if err != nil {
		return nil, err
	}
	if cfg.Lock || cfg.LockRequired {
		err := lock(m.bytes, &info)
		if err != nil && cfg.LockRequired {
			m.unmap()
			return nil, err
		}
	}
	a := &Arena{info: info, bytes: m.bytes[:cfg.Size:cfg.Size], m: m}
	a.check.Open("arena", cfg.Purpose)
	count(cfg.Purpose, 1, int64(len(m.bytes)))
	return a, nil
}

// mapBest tries the plan's candidates in order.
func mapBest(cfg *Config, bind int, info *Info) (mapping, error) {
	var last error
	for _, c := range plan(cfg, bind) {
		m, err := mapOne(cfg, c.kind, bind, info)
		if err == nil {
			info.Pages, info.PagesWhy, info.Bytes = c.kind, c.why, len(m.bytes)
			return m, nil
		}
		last = err
	}
	return mapping{}, last
}

func mapOne(cfg *Config, kind PageKind, bind int, info *Info) (mapping, error) {
	size := roundUp(cfg.Size, unix.Getpagesize())
	if kind != SmallPages {
		size = roundUp(cfg.Size, feature.HugePageBytes)
	}
	if kind != HugePages { // those are set aside already and count in no limit
		if err := checkBudget(feature.Root(cfg.Root), cfg.Purpose, int64(size)); err != nil {
			return mapping{}, err
		}
	}
	m, err := newMapping(cfg, kind, size)
	if err != nil {
		return mapping{}, err
	}
	if bind >= 0 {
		if err := feature.MBind(m.bytes, bind); err != nil {
			info.Node, info.NodeWhy = -1, fmt.Sprintf("mbind to node %d refused: %v", bind, err)
		}
	}
	// A huge page that is missing at first touch is a SIGBUS, which nothing
	// survives: populated here it is an error, and the next kind is tried.
	if cfg.Prefault || kind == HugePages {
		if err := populate(m.bytes); err != nil {
			m.unmap()
			return mapping{}, refused(cfg.Purpose, size, feature.Root(cfg.Root), "pre-faulting", err)
		}
	}
	return m, nil
}

// Renew puts new memory, with the same bytes, where the arena lies, and gives it a descriptor of
// its own: whoever has mapped the arena by the old one, and may write there when nobody
// expects it any more, keeps the old memory for himself, until he unmaps it or dies.
//
// Preconditions: the arena is shared; nobody else touches it meanwhile, and no registration
// of it is open. The pages are of the kind they were, or small ones where those are short.
func (a *Arena) Renew() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.m.file == nil {
		return fmt.Errorf("mem: Renew of %q, which is closed or has no file", a.info.Purpose)
	}
	err := a.m.renew(a.info.Purpose, a.info.Pages, a.info.Node)
	if err != nil && a.info.Pages == HugePages {
		if err = a.m.renew(a.info.Purpose, SmallPages, a.info.Node); err == nil {
			a.info.Pages, a.info.PagesWhy = SmallPages, "renewed when no huge page was free"
		}
	}
	if err != nil {
		return err
	}
	if a.info.Locked {
		a.info.Locked = false
		_ = lock(a.m.bytes, &a.info) // Info says so if it is not
	}
	return nil
}

// Bytes is the arena's memory, of the length asked for.
func (a *Arena) Bytes() []byte {
	a.check.AssertOpen()
	return a.bytes
}

// Descriptor gives the memfd of a shared arena, open until Close; ok is false
// for one that was not made to be shared.
func (a *Arena) Descriptor() (fd int, offset int64, ok bool) {
	if a.m.file == nil {
		return -1, 0, false
	}
	return int(a.m.file.Fd()), 0, true
}

// NUMANode is the node of the pages, -1 when they may be anywhere.
func (a *Arena) NUMANode() int { return a.info.Node }

// Info tells what the arena got and why.
func (a *Arena) Info() Info { return a.info }

// Alloc gives the next n bytes, beginning at a multiple of align (a power of
// two up to a huge page) counted from the arena's start, which itself lies on
// a page. They are zero unless someone wrote there through Bytes.
func (a *Arena) Alloc(n, align int) ([]byte, error) {
	if n < 0 || align <= 0 || align&(align-1) != 0 || align > feature.HugePageBytes {
		return nil, fmt.Errorf("mem: Alloc of %d bytes aligned to %d in %q: want n >= 0 and a power of two up to %d",
			n, align, a.info.Purpose, feature.HugePageBytes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("mem: Alloc in the closed arena %q", a.info.Purpose)
	}
	start := roundUp(a.used, align)
	if start > len(a.bytes) || n > len(a.bytes)-start {
		return nil, fmt.Errorf("%w %q: Alloc of %d bytes aligned to %d, %d of %d bytes are free; make the arena larger",
			ErrNoMemory, a.info.Purpose, n, align, len(a.bytes)-a.used, len(a.bytes))
	}
	a.used = start + n
	return a.bytes[start : start+n : start+n], nil
}

// Close gives the memory back. Closing again does nothing (under the tag
// psrt_invariants it panics: two owners believe they own the arena).
func (a *Arena) Close() error {
	a.check.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	count(a.info.Purpose, -1, -int64(len(a.m.bytes)))
	return a.m.unmap()
}

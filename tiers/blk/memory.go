package blk

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"
)

// MemoryConfig describes a Memory.
type MemoryConfig struct {
	Block int    // 512 (also 0) or 4096
	Depth int    // 0 is 32
	Bytes int64  // of room; 0 is 1 GiB
	Seed  uint64 // of the order of results
	// InOrder answers requests in the order of Submit, all at the next Poll.
	InOrder bool
	// Step is called before each request is taken or answered, and before each
	// call that has to do with names. It may Crash or Kill, this disk and others:
	// then the step does not happen.
	Step func()
}

// Memory is a disk in memory whose power can be cut. It promises no more than
// disks do, and breaks everything that they do not promise:
//
//   - Requests take effect in any order, and when they are answered, not when
//     they are submitted; until then the memory of a Read holds rubbish.
//   - Crash keeps what a Sync covered. Of every other block it keeps, by a seed,
//     any state since: as before, or as any of the writes left it. So writes
//     are torn between blocks, lost and reordered, those in flight included.
//   - Kill, the end of a process on a machine that goes on, keeps all that was
//     answered, and of what was in flight any blocks.
//   - A Make in flight leaves no file, an empty one, or the whole; an Unlink
//     happens or not.
//
// Not modelled: blocks that are torn within or decay (see Faulty).
//
// The figures of room are those of blocks: Create takes all of a file's, Discard
// gives some back.
//
// A Memory and its Devices belong to one goroutine. It outlives its Devices,
// as a disk outlives processes.
type Memory struct {
	cfg   MemoryConfig
	files map[string]*memFile
	used  int64 // bytes of all blocks that have room
	open  *memDevice
	rng   *rand.Rand
}

// NewMemory makes an empty disk.
func NewMemory(cfg MemoryConfig) *Memory {
	if cfg.Block == 0 {
		cfg.Block = 512
	}
	if cfg.Depth == 0 {
		cfg.Depth = 32
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = 1 << 30
	}
	return &Memory{cfg: cfg, files: map[string]*memFile{}, rng: rand.New(rand.NewPCG(cfg.Seed, 1))}
}

// Open gives the disk to a process: one at a time.
func (m *Memory) Open() (Device, error) {
	if m.open != nil {
		return nil, &LockedError{Dir: "memory", PID: unix.Getpid()}
	}
	m.open = &memDevice{disk: m, rng: m.rng}
	m.open.checker.Open("block device", "memory")
	return m.open, nil
}

// Crash cuts the power. The open Device, if any, is dead: it answers nothing
// and fails every call but Close with ErrCrashed.
func (m *Memory) Crash(seed uint64) { m.stop(seed, true) }

// Kill ends the process: only what is in flight is uncertain.
func (m *Memory) Kill(seed uint64) { m.stop(seed, false) }

func (m *Memory) stop(seed uint64, power bool) {
	rng := rand.New(rand.NewPCG(seed, 2))
	if d := m.open; d != nil {
		// Earlier ones first, so that a seed always does the same.
		for i := range d.flight {
			d.flight[i].interrupted(m, rng)
		}
		for _, o := range d.files {
			if o.f != nil && o.f.nameless {
				o.f.open = 0
				o.f.forget()
			}
		}
		d.flight, d.dead = nil, true
		m.open = nil
	}
	for _, name := range m.names() {
		m.files[name].settle(rng, power)
	}
}

// Crashed is a disk as Crash with that seed would leave this one, which goes
// on: one run can be looked at after many crashes.
func (m *Memory) Crashed(seed uint64) *Memory {
	c := NewMemory(m.cfg)
	c.cfg.Step, c.used = nil, m.used
	twin := map[*memFile]*memFile{}
	for name, f := range m.files {
		twin[f] = f.clone(c)
		c.files[name] = twin[f]
	}
	if m.open != nil {
		d := &memDevice{disk: c, rng: c.rng, closed: true}
		c.open = d
		for _, o := range m.open.files {
			if o.f != nil && twin[o.f] == nil {
				twin[o.f] = o.f.clone(c) // it has no name any more
			}
			d.files = append(d.files, memOpen{f: twin[o.f], name: o.name})
		}
		for _, j := range m.open.flight {
			j.f = twin[j.f]
			d.flight = append(d.flight, j)
		}
	}
	c.Crash(seed)
	return c
}

func (m *Memory) names() []string {
	names := make([]string, 0, len(m.files))
	for name := range m.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// create makes a file with its room.
func (m *Memory) create(name string, size int64) error {
	switch {
	case m.files[name] != nil:
		return failed("create", name, -1, unix.EEXIST)
	case m.used+size > m.cfg.Bytes:
		return failed("create", name, -1, unix.ENOSPC)
	}
	m.files[name] = newMemFile(m, size)
	return nil
}

func (m *Memory) remove(name string) error {
	f := m.files[name]
	if f == nil {
		return failed("remove", name, -1, unix.ENOENT)
	}
	delete(m.files, name)
	f.nameless = true
	f.forget()
	return nil
}

// Corrupt flips one bit of a file, as a decaying disk does.
func (m *Memory) Corrupt(name string, offset int64, bit uint) error {
	f := m.files[name]
	if f == nil || offset < 0 || offset >= f.size {
		return fmt.Errorf("%w: no byte %d in file %q", ErrRequest, offset, name)
	}
	b := offset / int64(m.cfg.Block)
	block := slices.Clone(f.block(b))
	block[offset%int64(m.cfg.Block)] ^= 1 << (bit % 8)
	f.put(b, block)
	delete(f.unsynced, b)
	return nil
}

// Names lists the files, Size gives the bytes of one, -1 where there is none.
func (m *Memory) Names() []string { return m.names() }

// Size is a file's length.
func (m *Memory) Size(name string) int64 {
	if f := m.files[name]; f != nil {
		return f.size
	}
	return -1
}

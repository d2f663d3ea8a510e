package micro

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma"
)

// played is what one side knows of a phase.
type played struct {
	bytes int // of bw, one way
	took  time.Duration
	cpu   float64 // seconds
}

// prepare puts the phase's bytes where this side's are sent from.
func (s *station) prepare(p phase) {
	switch {
	case p.Kind == kindLatency || p.Kind == kindFlag:
		fill(place(s.buf, p.Bytes, 1), p.Seed+boolSeed(s.first))
	case s.first == (p.Kind == kindWrite) && (p.Kind == kindWrite || p.Kind == kindRead):
		fill(s.moved(p), p.Seed)
	}
}

// boolSeed keeps the two directions' bytes apart.
func boolSeed(first bool) uint64 {
	if first {
		return 1 << 40
	}
	return 0
}

// moved is the memory whose bytes must be equal at both ends after the phase.
func (s *station) moved(p phase) []byte {
	return s.buf[lineBytes:][:min(p.slots(), p.Iterations)*p.Bytes]
}

// checksum of the phase's bytes, at the end they arrived at and at the end
// they left.
func (s *station) checksum(p phase) uint32 {
	switch p.Kind {
	case kindLatency, kindFlag: // the answers
		if s.first {
			return checksum(place(s.buf, p.Bytes, 0))
		}
		return checksum(place(s.buf, p.Bytes, 1))
	case kindWrite, kindRead:
		return checksum(s.moved(p))
	}
	return 0
}

// play is this side's part of the phase. halves has room for the iterations
// where the side times them.
func (s *station) play(p phase, halves []time.Duration) (played, error) {
	if s.caps.Mapped {
		// Who spins on memory stays on its core. Who waits for a device gives way
		// to other goroutines, which costs a locked thread two thread switches.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	r := played{bytes: p.Bytes * p.Iterations}
	before := cpuSeconds()
	var err error
	switch p.Kind {
	case kindLatency:
		err = pingPong(s.newWritePing(p), p.Iterations, s.first, halves)
	case kindFlag:
		err = pingPong(s.newFlagPing(p), p.Iterations, s.first, halves)
	case kindLatencyLimit:
		switch {
		case s.caps.Mapped:
			err = pingPong(s.newLinePing(p), p.Iterations, s.first, halves)
		case s.bare != nil:
			err = s.barePing(p, halves)
		default:
			err = pingPong(s.newSocketPing(p), p.Iterations, s.first, halves)
		}
	case kindWrite, kindRead:
		op := rdma.OpWrite
		if p.Kind == kindRead {
			op = rdma.OpRead
		}
		if s.first {
			r.took, err = s.stream(p, op)
		}
	case kindWriteLimit, kindReadLimit:
		switch {
		case s.bare != nil:
			if s.first {
				r.took, err = s.bareStream(p)
			}
		case !s.caps.Mapped:
			r.bytes, r.took, err = s.streaming(p)
		case s.first:
			r.took = s.copying(p)
		}
	default:
		err = fmt.Errorf("micro: unknown phase %q; both ends must be one program", p.Kind)
	}
	r.cpu = cpuSeconds() - before
	return r, err
}

// cpuSeconds that this process has used.
func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

package micro

import (
	"fmt"
	"time"

	"psrt/rdma"
)

// Phase is what both ends of a Link play at a time.
type Phase = phase

// The phases of a Link.
const (
	PhaseLatency = kindLatency // ping-pong; the end that is First times it
	PhaseWrite   = kindWrite   // writes by the end that is First
)

// LinkDepth is the SendDepth and the RecvDepth of a Link's endpoint; its queue
// holds twice as many.
const LinkDepth = depth

// RegionBytes is what a Link's region needs for messages of these sizes.
func RegionBytes(sizes []int) int { return regionBytes(sizes) }

// Slots is how many different places a Phase of n bytes moves its bytes to.
func Slots(n int) int { return slots(n) }

// Link is one end of a connection that somebody else has made and closes, for
// the phases that Run plays between two processes of one machine. Both ends
// Prepare a phase, then both Play it, then their Checksums must be equal.
type Link struct{ st *station }

// LinkConfig says what a Link plays on.
type LinkConfig struct {
	Caps     rdma.Caps
	Queue    rdma.Queue
	Endpoint rdma.Endpoint // connected
	Memory   []byte        // inside a region that the peer may write to
	First    bool          // the end that starts and measures
}

// NewLink posts the receives that the phases need: the peer may play once it
// knows of that.
func NewLink(c LinkConfig) (*Link, error) {
	st := &station{caps: c.Caps, queue: c.Queue, ep: c.Endpoint, buf: c.Memory, first: c.First, recvs: make([]rdma.Recv, depth)}
	_, err := st.ep.PostRecv(st.recvs)
	return &Link{st}, err
}

// Aim names the peer's memory.
func (l *Link) Aim(r rdma.RemoteRange) { l.st.remote = r }

// Prepare puts the phase's bytes where they are sent from.
func (l *Link) Prepare(p Phase) error {
	if err := l.st.fits(p); err != nil {
		return err
	}
	if need := uint64(regionBytes([]int{p.Bytes})); l.st.remote.Len < need {
		return fmt.Errorf("micro: the peer's region has %d bytes, a phase of messages of %d needs %d; both ends must be told the same sizes", l.st.remote.Len, p.Bytes, need)
	}
	l.st.prepare(p)
	return nil
}

// Play plays the phase. Of ping-pong, halves gets the half round trips at the
// end that is First; of writes, took is theirs. cpuSeconds are this process's
// meanwhile.
func (l *Link) Play(p Phase, halves []time.Duration) (took time.Duration, cpuSeconds float64, err error) {
	r, err := l.st.play(p, halves)
	return r.took, r.cpu, err
}

// Checksum is of the bytes that the phase moved.
func (l *Link) Checksum(p Phase) uint32 { return l.st.checksum(p) }

// Stop makes a Play that waits for the peer give up. Any goroutine.
func (l *Link) Stop() {
	l.st.stopped.Store(true)
	l.st.queue.Wake()
}

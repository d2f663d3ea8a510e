package policy

import "fmt"

// Names of policies, as on a command line.
const (
	NameBelady = "belady"
	NameS3FIFO = "s3fifo"
	NameLRU    = "lru"
)

// Policy is one table's order of leaving.
type Policy interface {
	// Grow makes room for frames below n.
	Grow(n int)
	// Add says that key's row has come into a frame; Touch, that it was looked up
	// there; Remove, that it is gone.
	Add(frame uint32, key uint64)
	Touch(frame uint32, key uint64)
	Remove(frame uint32, key uint64)
	// Victim takes out the frame that is to leave first among those that may.
	Victim(may func(frame uint32) bool) (frame uint32, ok bool)
	// Bytes is the memory in use; FrameBytes, what one frame more costs at most.
	Bytes() int64
	Reset()
}

// FrameBytes bounds what a policy takes for each frame, whatever its name.
const FrameBytes = listBytes + 1 + ghostBytes

// Check says whether there is a policy of this name; "" is Belady's.
func Check(name string) error {
	switch name {
	case "", NameBelady, NameS3FIFO, NameLRU:
		return nil
	}
	return fmt.Errorf("policy: %q, want %s, %s or %s", name, NameBelady, NameS3FIFO, NameLRU)
}

package blk

import (
	"fmt"
	"math"

	"psrt/rdma/mem"
)

// maxTransfer bounds one read or write: well below what kernels cut off.
const maxTransfer = 1 << 30

// maxFile bounds a file's size, so that offset + length never overflows.
const maxFile = math.MaxInt64 / 4

// check holds a request against the rules of Request, for all devices alike.
// size is the file's, pool the device's buffers.
func (r *Request) check(block int, size int64, pool *pool) error {
	b := int64(block)
	switch r.Op {
	case Read, Write:
		n := int64(len(r.Buf))
		switch {
		case n == 0 || n%b != 0 || n > maxTransfer:
			return fmt.Errorf("%w: %s of %d bytes, want a multiple of %d up to %d", ErrRequest, r.Op, n, b, maxTransfer)
		case r.Offset < 0 || r.Offset%b != 0 || r.Offset > size-n:
			return fmt.Errorf("%w: %s of %d bytes at %d of a file of %d, want a multiple of %d within", ErrRequest, r.Op, n, r.Offset, size, b)
		case mem.Address(r.Buf)%uint64(block) != 0:
			return fmt.Errorf("%w: %s with memory at %#x, want a multiple of %d", ErrRequest, r.Op, mem.Address(r.Buf), b)
		case pool.find(r.Buf) < 0:
			return fmt.Errorf("%w: %s with memory at %#x, which is not from Buffers", ErrRequest, r.Op, mem.Address(r.Buf))
		}
	case Discard:
		if r.Len <= 0 || r.Len%b != 0 || r.Offset < 0 || r.Offset%b != 0 || r.Offset > size-r.Len {
			return fmt.Errorf("%w: discard of %d bytes at %d of a file of %d, want multiples of %d within", ErrRequest, r.Len, r.Offset, size, b)
		}
	case Sync:
	default:
		return fmt.Errorf("%w: operation %d", ErrRequest, r.Op)
	}
	return nil
}

// checkName is check for Make and Unlink.
func (r *Request) checkName(block int) error {
	if r.Op == Make {
		if err := badSize(r.Name, r.Len, block); err != nil {
			return err
		}
	}
	return badName(r.Name)
}

func badSize(name string, size int64, block int) error {
	if size <= 0 || size%int64(block) != 0 || size > maxFile {
		return fmt.Errorf("%w: file %q of %d bytes, want a multiple of %d", ErrRequest, name, size, block)
	}
	return nil
}

func (o Op) String() string {
	switch o {
	case Read:
		return "read"
	case Write:
		return "write"
	case Sync:
		return "sync"
	case Discard:
		return "discard"
	case Make:
		return "make"
	case Unlink:
		return "unlink"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

func noFile(file int) error { return fmt.Errorf("%w: file %d is not open", ErrRequest, file) }

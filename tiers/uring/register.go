package uring

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// tables asks what the kernel can do and makes the slots that Config asks for.
func (r *Ring) tables(cfg *Config) {
	if errno := r.args.probeOps(r.fd); errno != 0 {
		r.missing("operations cannot be probed: %v", errno)
	}
	for _, op := range r.args.probe.ops[:r.args.probe.n] {
		r.ops[op.op] = op.flags&1 != 0
	}
	if cfg.Files > 0 {
		if errno := r.args.noFiles(r.fd, cfg.Files); errno == 0 {
			r.files = cfg.Files
		} else {
			r.missing("files are not registered (%v)", errno)
		}
	}
	if cfg.Buffers > 0 {
		switch errno := r.noBuffers(cfg); errno {
		case 0:
			r.buffers = cfg.Buffers
		default:
			r.missing("buffers are not registered, which takes Linux 5.19 (%v)", errno)
		}
	}
}

func (r *Ring) noBuffers(cfg *Config) unix.Errno {
	if cfg.Plain {
		return unix.EINVAL // as an old kernel says
	}
	return r.args.noBuffers(r.fd, cfg.Buffers)
}

func (r *Ring) missing(format string, args ...any) {
	r.why = append(r.why, fmt.Sprintf(format, args...))
}

// Supports says whether the kernel knows an operation.
func (r *Ring) Supports(op Opcode) bool { return r.ops[op] }

// Files and Buffers are the slots there are.
func (r *Ring) Files() int   { return r.files }
func (r *Ring) Buffers() int { return r.buffers }

// Why says what the ring lacks and why; empty when nothing.
func (r *Ring) Why() string { return strings.Join(r.why, "; ") }

// RegisterFile puts a descriptor into a slot, or -1 to free it; the ring keeps
// the file open until then.
func (r *Ring) RegisterFile(slot, fd int) error {
	switch {
	case r.mem == nil:
		return ErrClosed
	case slot < 0 || slot >= r.files:
		return fmt.Errorf("uring: file slot %d of %d", slot, r.files)
	}
	if errno := r.args.file(r.fd, slot, fd); errno != 0 {
		return fmt.Errorf("uring: registering a file in slot %d: %w", slot, errno)
	}
	return nil
}

// RegisterBuffer pins memory that is not Go's and puts it into a slot.
func (r *Ring) RegisterBuffer(slot int, b []byte) error {
	switch {
	case r.mem == nil:
		return ErrClosed
	case slot < 0 || slot >= r.buffers:
		return fmt.Errorf("uring: buffer slot %d of %d", slot, r.buffers)
	case len(b) == 0 || len(b) > MaxBufferBytes:
		return fmt.Errorf("uring: a buffer of %d bytes, want 1 to %d", len(b), MaxBufferBytes)
	}
	switch errno := r.args.buffer(r.fd, slot, b); errno {
	case 0:
		return nil
	case unix.ENOMEM:
		return fmt.Errorf("uring: pinning %d bytes: %w; raise the limit of locked memory (ulimit -l, LimitMEMLOCK=infinity in the unit)", len(b), errno)
	default:
		return fmt.Errorf("uring: registering a buffer of %d bytes: %w", len(b), errno)
	}
}

// MaxBufferBytes is the kernel's bound of one registered buffer.
const MaxBufferBytes = 1 << 30

// Notify has the kernel write to an eventfd with each completion, until Close.
//
// Not for Locked rings: they are told of by the interrupt, which may hit a
// thread that itself writes to an eventfd; kernels put the write off then, and
// some (io_uring/eventfd.c as of Linux 6.18 never clears the mark that one is
// put off) do so once and afterwards drop it: a wake-up is lost.
func (r *Ring) Notify(eventfd int) error {
	switch {
	case r.mem == nil:
		return ErrClosed
	case r.mode.flags&setupDeferTaskrun != 0:
		return errors.New("uring: Notify of a Locked ring may lose wake-ups; use Wait, or leave Locked out")
	}
	if errno := r.args.eventfd(r.fd, eventfd); errno != 0 {
		return fmt.Errorf("uring: registering an eventfd: %w", errno)
	}
	return nil
}

package regcache

import (
	"errors"
	"fmt"
	"io"
)

var (
	ErrClosed = errors.New("regcache: closed")
	// ErrInvalid marks ranges and configurations that cannot be.
	ErrInvalid = errors.New("regcache: invalid")
)

// FullError says that leases alone leave no room for a registration.
type FullError struct {
	Need     uint64 // bytes asked for
	Busy     uint64 // bytes leased or being registered
	Count    int    // registrations leased or being made
	MaxBytes uint64
	MaxCount int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("regcache: no room for a registration of %d bytes: %d bytes in %d registrations are in use, limits %d bytes and %d registrations; "+
		"let transfers finish, cut the transfer, or raise the limits", e.Need, e.Busy, e.Count, e.MaxBytes, e.MaxCount)
}

// RegisterError says what Config.Register said.
type RegisterError struct {
	Addr, Bytes uint64
	Cause       error
}

func (e *RegisterError) Error() string {
	return fmt.Sprintf("regcache: registering %d bytes at %#x: %v", e.Bytes, e.Addr, e.Cause)
}
func (e *RegisterError) Unwrap() error { return e.Cause }

// CloseError says that a registration could not be closed; it has leaked.
type CloseError struct {
	Addr, Bytes uint64
	Cause       error
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("regcache: closing the registration of %d bytes at %#x: %v; it stays pinned until the device is closed", e.Bytes, e.Addr, e.Cause)
}
func (e *CloseError) Unwrap() error { return e.Cause }

// BusyError says that Close stopped waiting for leases.
type BusyError struct {
	Leases, Count int    // leases, and the registrations that are left
	Bytes         uint64 // of them
	Cause         error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("regcache: %d leases still hold %d registrations of %d bytes: %v; release them before closing the device",
		e.Leases, e.Count, e.Bytes, e.Cause)
}
func (e *BusyError) Unwrap() error { return e.Cause }

func check[T io.Closer](cfg Config[T]) error {
	switch {
	case cfg.Register == nil:
		return fmt.Errorf("%w: Config.Register is nil", ErrInvalid)
	case cfg.PageBytes&(cfg.PageBytes-1) != 0:
		return fmt.Errorf("%w: pages of %d bytes, want a power of two", ErrInvalid, cfg.PageBytes)
	case cfg.MaxBytes < cfg.PageBytes:
		return fmt.Errorf("%w: a limit of %d bytes, want at least a page of %d", ErrInvalid, cfg.MaxBytes, cfg.PageBytes)
	case cfg.MaxCount < 1:
		return fmt.Errorf("%w: a limit of %d registrations, want at least 1", ErrInvalid, cfg.MaxCount)
	}
	return nil
}

// align widens a range to whole pages.
func (c *Cache[T]) align(addr, length uint64) (start, end uint64, err error) {
	mask := c.cfg.PageBytes - 1
	end = (addr + length + mask) &^ mask
	if length == 0 || addr+length < addr || end < addr {
		return 0, 0, fmt.Errorf("%w: a range of %d bytes at %#x", ErrInvalid, length, addr)
	}
	return addr &^ mask, end, nil
}

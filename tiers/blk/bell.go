package blk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// bell calls a function when the ring's eventfd is written to. It sleeps in the
// runtime's poller: no thread of its own.
type bell struct {
	fd   int
	file *os.File
	done chan struct{} // nil before start
}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("blk: eventfd: %w; raise the limit of open files (ulimit -n)", err)
	}
	return &bell{fd: fd, file: os.NewFile(uintptr(fd), "eventfd")}, nil
}

func (b *bell) start(f func()) {
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		var count [8]byte
		for {
			if _, err := b.file.Read(count[:]); err != nil {
				return // closed
			}
			f()
		}
	}()
}

func (b *bell) close() error {
	err := b.file.Close()
	if b.done != nil {
		<-b.done
	}
	return err
}

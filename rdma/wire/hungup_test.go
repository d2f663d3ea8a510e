package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestHungUp(t *testing.T) {
	for err, is := range map[error]bool{io.EOF: true, syscall.ECONNRESET: true, syscall.EPIPE: true, syscall.ECONNREFUSED: false, context.DeadlineExceeded: false} {
		if HungUp(fmt.Errorf("send proof: %w", &net.OpError{Op: "write", Err: os.NewSyscallError("write", err)})) != is {
			t.Errorf("%v: hung up is %v", err, !is)
		}
	}
}

package etcd

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What ends the process is said, with the directory and what to do.
func TestComplaints(t *testing.T) {
	var said strings.Builder
	over := &atomic.Bool{}
	l := zap.New(complaints{dir: "/scratch/x", to: &said, over: over}, zap.WithFatalHook(zapcore.WriteThenPanic)).With(zap.String("member", "m0"))
	l.Info("all is well")
	l.Error("a peer is away")
	if said.Len() > 0 {
		t.Errorf("%q is nobody's business", said.String())
	}
	func() {
		defer func() { _ = recover() }()
		l.Fatal("failed to save Raft hard state and entries", zap.Error(errors.New("no space left on device")))
	}()
	want := "etcd: in /scratch/x: failed to save Raft hard state and entries: no space left on device; free space there or set TMPDIR\n"
	if said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
	over.Store(true)
	func() {
		defer func() { _ = recover() }()
		l.Fatal("failed to purge wal file", zap.Error(errors.New("no such file or directory")))
	}()
	if said.String() != want {
		t.Errorf("said of one whose folder was taken away as it ends: %q", said.String()[len(want):])
	}
}

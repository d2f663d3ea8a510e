package kv_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"psrt/rdma/openfiles"
	"psrt/sched/kv"
)

// A client that may not open as many files as its connections take says so, with the figures,
// before it connects.
func TestFewOpenFiles(t *testing.T) {
	token := []byte("a token of this test alone")
	addr, stop := startServer(token)
	defer stop()
	cfg := kv.Config{Servers: []string{addr}, Token: token, Transport: "tcp"}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var files *openfiles.Error
	for try := 0; ; try++ { // of tests before this one files may be closed meanwhile
		few := before
		few.Cur = uint64(openfiles.Now().Open + 6) // asking the server has room
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		c, err := kv.Open(context.Background(), cfg)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			c.Close()
		}
		if kv.CodeOf(err) == kv.NoMemory && errors.As(err, &files) && files.Need > 0 && files.Limit == int(few.Cur) {
			break
		}
		if try == 9 {
			t.Fatalf("%v", err)
		}
	}
	c, err := kv.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

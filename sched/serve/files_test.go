package serve

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"psrt/rdma/openfiles"
	"psrt/sched/place"
	"psrt/sched/server"
)

// A server has no more files open than it has said, and not far fewer.
func TestOpenFiles(t *testing.T) {
	for _, transport := range []string{"tcp", "shm"} {
		cfg := Config{Tables: tables(t, sums), Staleness: asp, Transport: transport, Lanes: 4, Clients: 4}
		own, each := cfg.OpenFiles()
		before := openfiles.Now().Open
		r := start(t, cfg)
		if n := openfiles.Now().Open - before; n > own {
			t.Errorf("%s: a server has %d files open, %d are said", transport, n, own)
		}
		r.join(t) // opens the files that all trainers of a process share
		first := openfiles.Now().Open
		const more = 3
		for range more {
			r.join(t)
		}
		// The trainers are of this process, too, and each has a host of its own.
		if n := openfiles.Now().Open - first; n > more*(2*each+8) || 4*n < 2*more*each {
			t.Errorf("%s: %d trainers and the server's part have %d files, %d are said for each part", transport, more, n, more*each)
		}
	}
}

// What grows with groups and disks is in the sum.
func TestOpenFilesOfGroups(t *testing.T) {
	cfg := Config{Transport: "tcp", Lanes: 2, Replicated: &Replicated{First: 3, Chains: place.ChainsConfig{Groups: 24, Replicas: 2}}}
	own, each := cfg.OpenFiles()
	cfg.Storage = &server.Storage{Dirs: []string{"a", "b"}}
	disks, same := cfg.OpenFiles()
	if each != 24*4 || same != each || disks-own != 24*2*diskFiles {
		t.Errorf("%d and %d for a trainer, %d with disks", own, each, disks)
	}
}

// A limit in which no trainer has room is refused before anything is opened; one that is too
// small for all of them is said.
func TestFewOpenFiles(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) }()
	cfg := Config{Transport: "tcp", Lanes: 2, Clients: 100}
	own, each := cfg.OpenFiles()
	var said []string
	cfg.Log = func(line string) { said = append(said, line) }
	at := func(limit int) error {
		t.Helper()
		said = nil
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(limit), Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		return cfg.checkFiles()
	}
	var bad *InputError
	if err := at(own + each - 1); !errors.As(err, &bad) {
		t.Errorf("one too few for a trainer: %v", err)
	}
	if err := at(own + 3*each); err != nil || len(said) != 1 || !strings.Contains(said[0], "about 3 trainers") {
		t.Errorf("for three trainers: %v, %q", err, said)
	}
	if err := at(own + 100*each); err != nil || len(said) != 0 {
		t.Errorf("for all: %v, %q", err, said)
	}
}

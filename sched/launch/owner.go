package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// self is the marker of this process.
func self() (marker, error) {
	host, err := os.Hostname()
	if err != nil {
		return marker{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return marker{}, err
	}
	m := marker{Psrt: 1, Host: host, Boot: strings.TrimSpace(string(boot)), PID: os.Getpid()}
	m.Start, err = startOf(m.PID)
	return m, err
}

// dead says whether the marked process certainly runs no more. me is a process
// of this machine.
func (m marker) dead(me marker) bool {
	switch {
	case m.Psrt != 1 || m.PID < 1 || m.Start == 0 || m.Boot == "" || m.Host != me.Host:
		return false // not written by a launcher of this machine
	case m.Boot != me.Boot:
		return true
	}
	start, err := startOf(m.PID)
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && start != m.Start // another process has got the pid
}

// startOf is when a process began, in clock ticks after the boot: field 22 of
// its stat file. The name before it may hold anything but ends with the last
// bracket.
func startOf(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("launch: /proc/%d/stat has %d fields behind the name, want 20", pid, len(fields))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

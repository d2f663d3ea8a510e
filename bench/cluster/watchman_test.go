package cluster

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostsEnv has this binary make hosts and wait to be killed.
const hostsEnv = "PSRT_TEST_HOSTS"

// TestKilled: when a test is killed from outside, its hosts and what runs on them end.
func TestKilled(t *testing.T) {
	if os.Getenv(hostsEnv) != "" {
		h := New(t, 1)
		c := h.Command(context.Background(), 1, "sh", "-c", "echo up; exec sleep 1000")
		c.SysProcAttr.Pdeathsig = 0 // as what a daemon starts
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		// Until it says so it may not be in the namespace yet, where the watchman looks.
		if up, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", up, err)
		}
		os.Stdout.WriteString("\nhosts " + h.space(1) + " " + strconv.Itoa(c.Process.Pid) + "\n")
		_ = c.Wait() // this process is killed before
		return
	}
	Need(t, Namespaces)
	c := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	c.Env = append(os.Environ(), hostsEnv+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var words []string
	for lines := bufio.NewScanner(out); len(words) != 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "hosts ") {
			words = strings.Fields(lines.Text())
		}
	}
	if err := syscall.Kill(c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	if len(words) != 3 {
		t.Fatalf("it made no hosts: %q", words)
	}
	pid, err := strconv.Atoi(words[2])
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat("/run/netns/" + words[1])
		lives := alive(pid)
		if errors.Is(err, os.ErrNotExist) && !lives {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is there (%v); process %d lives: %v", words[1], err, pid, lives)
		}
	}
}

// alive says whether a process runs. One that nobody has waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

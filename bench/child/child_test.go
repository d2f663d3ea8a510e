package child

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is the child when this is set.
func TestMain(m *testing.M) {
	switch os.Getenv("PSRT_TEST_CHILD") {
	case "echo":
		for d, e := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout); ; {
			var v any
			if d.Decode(&v) != nil {
				os.Exit(0)
			}
			e.Encode(v)
		}
	case "cpus":
		var set unix.CPUSet
		unix.SchedGetaffinity(0, &set)
		json.NewEncoder(os.Stdout).Encode(set.Count())
		os.Exit(0)
	case "dies":
		io.WriteString(os.Stderr, "no such device\n")
		os.Exit(1)
	case "hangs":
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, how string) (*Child, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c, err := Start(ctx, Command{Path: os.Args[0], Env: []string{"PSRT_TEST_CHILD=" + how}})
	if err != nil {
		t.Fatal(err)
	}
	return c, cancel
}

func TestTalk(t *testing.T) {
	c, cancel := start(t, "echo")
	defer c.Close(cancel)
	for _, want := range []string{"a", "b"} {
		var got string
		if err := c.Tell(want); err != nil {
			t.Fatal(err)
		}
		if err := c.Hear(&got); err != nil || got != want {
			t.Fatalf("heard %q, %v", got, err)
		}
	}
}

// TestCPUs: a child stays on the CPUs that it is given, and this process does not.
func TestCPUs(t *testing.T) {
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	one := 0
	for !mine.IsSet(one) {
		one++
	}
	for _, c := range []struct {
		cpus []int
		want int
	}{{[]int{one}, 1}, {nil, mine.Count()}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ch, err := Start(ctx, Command{Path: os.Args[0], Env: []string{"PSRT_TEST_CHILD=cpus"}, CPUs: c.cpus})
		if err != nil {
			t.Fatal(err)
		}
		var got int
		if err := ch.Hear(&got); err != nil || got != c.want {
			t.Errorf("given %v it may run on %d CPUs, %v; want %d", c.cpus, got, err, c.want)
		}
		ch.Close(cancel)
	}
}

func TestLastWords(t *testing.T) {
	c, cancel := start(t, "dies")
	defer c.Close(cancel)
	var v any
	if err := c.Hear(&v); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("a child that died says %v", err)
	}
}

func TestKilled(t *testing.T) {
	c, cancel := start(t, "hangs")
	time.AfterFunc(50*time.Millisecond, cancel)
	var v any
	if err := c.Hear(&v); err == nil {
		t.Error("a hanging child answered")
	}
	c.Close(cancel)
}

package child

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
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

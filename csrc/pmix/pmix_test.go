package pmix

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestBounds(t *testing.T) {
	c := &Client{}
	for _, bad := range []struct {
		key   string
		value []byte
		says  string
	}{
		{"", []byte{1}, "key of 0 bytes"}, {strings.Repeat("k", 512), []byte{1}, "key of 512 bytes"},
		{"k", nil, "value of 0 bytes"}, {"k", make([]byte, MaxValue+1), "value of 65537 bytes"},
	} {
		if err := c.Put(bad.key, bad.value); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%q, %d bytes: %v", bad.key, len(bad.value), err)
		}
	}
}

// Without a process manager Open says so within its bound, and does not end or
// hang the process. With one it is a rank of its job.
func TestOpenByItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := Open(ctx)
	if err != nil {
		if ctx.Err() != nil || c != nil {
			t.Fatal(err)
		}
		return
	}
	if c.Rank < 0 || c.Rank >= c.Size {
		t.Errorf("rank %d of %d", c.Rank, c.Size)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

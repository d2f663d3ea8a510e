package micro

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// peer is the other process.
type peer struct {
	in     io.Closer
	to     *json.Encoder
	from   *json.Decoder
	stderr *bytes.Buffer
	ended  chan struct{}
}

// startPeer starts it; it is killed when ctx ends or this process dies.
func startPeer(ctx context.Context, c Command) (*peer, error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	p := &peer{stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd.Stderr = p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, outPeer, err := os.Pipe() // not StdoutPipe: Wait would close it under the decoder
	if err != nil {
		return nil, err
	}
	cmd.Stdout = outPeer
	started := make(chan error)
	go func() {
		// PR_SET_PDEATHSIG fires when the starting thread ends, so this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		outPeer.Close()
		started <- err
		if err == nil {
			cmd.Wait() // how it ended shows in what it said, or did not say
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("micro: peer process: %w", err), out.Close())
	}
	p.in, p.to, p.from = in, json.NewEncoder(in), json.NewDecoder(&closing{out})
	return p, nil
}

// closing closes its file at the end of it.
type closing struct{ f *os.File }

func (c *closing) Read(b []byte) (int, error) {
	n, err := c.f.Read(b)
	if err != nil {
		c.f.Close()
	}
	return n, err
}

// tell sends v to the peer.
func (p *peer) tell(v any) error {
	if err := p.to.Encode(v); err != nil {
		return p.lost(err)
	}
	return nil
}

// hear waits for the peer's next word; the run's deadline ends the peer and so
// the wait.
func (p *peer) hear(v any) error {
	if err := p.from.Decode(v); err != nil {
		return p.lost(err)
	}
	return nil
}

// lost explains that the peer is gone by its own last words.
func (p *peer) lost(err error) error {
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second):
		return fmt.Errorf("micro: peer process: %w", err)
	}
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		return fmt.Errorf("micro: peer process ended: %s", said)
	}
	return fmt.Errorf("micro: peer process ended: %w", err)
}

// close lets the peer end by itself, a moment, then by kill.
func (p *peer) close(kill func()) {
	p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		kill()
		<-p.ended
	}
	for {
		var rest json.RawMessage // drains and so closes its output
		if p.from.Decode(&rest) != nil {
			return
		}
	}
}

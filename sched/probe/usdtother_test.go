package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	ibv "psrt/csrc/verbs"
)

// traffic makes TestShimTraffic wait for a line and tell what it has moved.
const traffic = "PSRT_PROBE_TRAFFIC"

func needsTwoDevices(t *testing.T) {
	t.Helper()
	if names, err := ibv.Devices(); err != nil || len(names) < 2 {
		skipMissing(t, &MissingError{What: "two RDMA devices", Needed: "RDMA traffic", Remedy: "run in the lab (docs/lab.md)", Cause: err})
	}
}

// TestShimTraffic moves data while nobody looks; for TestUSDTOfAnother it is
// the other process.
func TestShimTraffic(t *testing.T) {
	needsTwoDevices(t)
	server, worker := newShimEnd(t, "rxe1"), newShimEnd(t, "rxe0")
	worker.connect(t, server)
	server.connect(t, worker)
	if os.Getenv(traffic) != "" {
		fmt.Println("ready")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	rounds(t, &shimTotals{}, server, worker, 3)
	if server.want.Received.Messages != 50 || worker.want.Completions != 60 {
		t.Errorf("server %+v, worker %+v", server.want, worker.want)
	}
	if os.Getenv(traffic) != "" {
		if err := json.NewEncoder(os.Stdout).Encode([]Queue{server.want, worker.want}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUSDTOfAnother meters another process that runs already.
func TestUSDTOfAnother(t *testing.T) {
	needsTwoDevices(t)
	requireUSDT(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShimTraffic$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), traffic+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // where it has not ended
		_ = cmd.Wait()
	})
	lines := make(chan []byte, 16)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- bytes.Clone(s.Bytes())
		}
		close(lines)
	}()
	line := func() []byte {
		t.Helper()
		select {
		case l := <-lines:
			return l
		case <-time.After(time.Minute):
			t.Fatal("the other process says nothing for a minute")
		}
		return nil
	}
	if l := line(); string(l) != "ready" {
		t.Fatalf("the other process says %q", l)
	}
	meter, err := OpenUSDT(USDTConfig{PID: cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	if _, err := fmt.Fprintln(in, "go"); err != nil {
		t.Fatal(err)
	}
	answer := line()
	var want []Queue
	if err := json.Unmarshal(answer, &want); err != nil {
		t.Fatalf("the other process says %q: %v", answer, err)
	}
	compare(t, meter, want)
}

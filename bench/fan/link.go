package fan

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Names and addresses. The namespaces are this run's own, so they meet nobody
// else's.
const (
	wire        = "wire" // in the workers' and in the server's namespace
	portWorkers = "workers"
	portServer  = "server" // of the switch

	workerAddress = "10.78.0.2"
	workerGateway = "10.78.0.1"
	serverAddress = "10.78.1.2"
	serverGateway = "10.78.1.1"
	prefix        = "/24"
)

// burstTime is how long the port may send at more than its rate. What is more
// in one piece is cut into packets there, so that a small packet does not wait
// behind 64 KiB of one sender.
const burstTime = 100 * time.Microsecond

const packetBytes = 1514

// switchLines make the two cables, in the switch's namespace, for ip -batch.
func switchLines(workersPID, serverPID int) []string {
	return []string{
		fmt.Sprintf("link add %s type veth peer name %s netns %d", portWorkers, wire, workersPID),
		fmt.Sprintf("link add %s type veth peer name %s netns %d", portServer, wire, serverPID),
		"address add " + workerGateway + prefix + " dev " + portWorkers,
		"address add " + serverGateway + prefix + " dev " + portServer,
		"link set lo up",
		"link set " + portWorkers + " up",
		"link set " + portServer + " up",
	}
}

// endLines are those of an end of a cable.
func endLines(address, gateway string) []string {
	return []string{
		"address add " + address + prefix + " dev " + wire,
		"link set lo up",
		"link set " + wire + " up",
		"route add default via " + gateway,
	}
}

// queueLines are the rate towards the server and the delay towards the
// workers, for tc -batch.
func queueLines(c *Config) []string {
	burst := max(2*packetBytes, int(float64(c.RateBits)/8*burstTime.Seconds()))
	lines := []string{fmt.Sprintf("qdisc add dev %s root tbf rate %dbit burst %db limit %db", portServer, c.RateBits, burst, c.QueueBytes)}
	if c.Delay > 0 {
		lines = append(lines, fmt.Sprintf("qdisc add dev %s root netem delay %dus limit 1000000", portWorkers, c.Delay.Microseconds()))
	}
	return lines
}

// end sets up this process's end of its cable.
func end(ctx context.Context, address, gateway, congestion string) error {
	if err := batch(ctx, "ip", endLines(address, gateway)); err != nil {
		return err
	}
	if congestion == "" {
		return nil
	}
	if err := set("net/ipv4/tcp_congestion_control", congestion); err != nil {
		allowed, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
		return fmt.Errorf("%w; in a namespace there are %s (sysctl net.ipv4.tcp_allowed_congestion_control)", err, oneLine(string(allowed)))
	}
	return nil
}

func set(name, value string) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("fan-in: setting %s to %s: %w", name, value, err)
	}
	return nil
}

// congestion is the congestion control of this process's namespace.
func congestion() string {
	b, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	return strings.TrimSpace(string(b))
}

func batch(ctx context.Context, program string, lines []string) error {
	_, err := command(ctx, strings.Join(lines, "\n")+"\n", program, "-batch", "-")
	return err
}

// command runs a program; its error is what the program said.
func command(ctx context.Context, stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(stdin)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	switch {
	case err == nil:
		return string(out), nil
	case c.Process == nil:
		return "", fmt.Errorf("fan-in: %w; apt-get install iproute2, or measure over loopback with --link none", err)
	case strings.Contains(said.String(), "qdisc kind is unknown"):
		return "", fmt.Errorf("fan-in: this kernel cannot do %q (modules sch_tbf, and for --latency sch_netem): %s", strings.TrimSpace(stdin), oneLine(said.String()))
	}
	return "", fmt.Errorf("fan-in: %s: %w: %s", name, err, oneLine(said.String()))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// switchOrder is what the switch is told first; after it any order asks for
// what it has dropped.
type switchOrder struct {
	Config                Config
	WorkersPID, ServerPID int
}

type switchSays struct {
	Err     string
	Dropped int64
}

// serveSwitch is the switch's body.
func serveSwitch(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var o switchOrder
	if err := from.Decode(&o); err != nil {
		return fmt.Errorf("fan-in: no set-up on standard input: %w", err)
	}
	for err := connect(ctx, &o); ; {
		var s switchSays
		if err == nil {
			s.Dropped, err = dropped(ctx)
		}
		if err != nil {
			s.Err = err.Error()
		}
		if err := to.Encode(s); err != nil {
			return err
		}
		var next struct{}
		if from.Decode(&next) != nil {
			return nil // the station's end is the end
		}
	}
}

func connect(ctx context.Context, o *switchOrder) error {
	if err := batch(ctx, "ip", switchLines(o.WorkersPID, o.ServerPID)); err != nil {
		return err
	}
	if err := batch(ctx, "tc", queueLines(&o.Config)); err != nil {
		return err
	}
	return set("net/ipv4/ip_forward", "1")
}

func dropped(ctx context.Context) (int64, error) {
	out, err := command(ctx, "", "tc", "-s", "-j", "qdisc", "show", "dev", portServer)
	if err != nil {
		return 0, err
	}
	return parseDropped([]byte(out))
}

func parseDropped(text []byte) (int64, error) {
	var list []struct {
		Kind  string `json:"kind"`
		Drops int64  `json:"drops"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, fmt.Errorf("fan-in: tc -j says %.100q: %w", text, err)
	}
	for _, q := range list {
		if q.Kind == "tbf" {
			return q.Drops, nil
		}
	}
	return 0, fmt.Errorf("fan-in: the switch has lost its queue: tc -j says %.100q", text)
}

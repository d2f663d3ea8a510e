package cable

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Kinds of links.
const (
	Veth = "veth" // namespaces of the run's own, and a rate
	None = "none" // loopback, or the devices' own wire
)

const (
	// wire is the name of a process's end.
	wire = "wire"
	// burstTime is how long a port may send at more than its rate. What is more in one
	// piece is cut into packets there, so that a small packet does not wait behind 64 KiB
	// of one sender. Cutting is a card's work, and takes the cores' time where there is
	// none: Pieces.
	burstTime   = 100 * time.Microsecond
	packetBytes = 1514
	tickBytes   = 64               // by so much, at most, the kernel's clock rounds a burst down
	patience    = 30 * time.Second // with a program, and with the other end of a stream
)

// Lay lays a cable from a port of this namespace, whose address the other end has as its
// gateway, to the namespace of a process.
func Lay(ctx context.Context, port, gateway string, pid int) error {
	return Batch(ctx, "ip",
		fmt.Sprintf("link add %s type veth peer name %s netns %d", port, wire, pid),
		"address add "+gateway+"/24 dev "+port,
		"link set lo up",
		"link set "+port+" up")
}

// burstBytes is what a port of so many bit/s may send at once.
func burstBytes(bits int64) int {
	return max(2*packetBytes+tickBytes, int(float64(bits)/8*burstTime.Seconds()))
}

// Rate bounds what a port sends, in bit/s, and how many bytes wait there.
func Rate(ctx context.Context, port string, bits int64, queueBytes int) error {
	burst := burstBytes(bits)
	return Batch(ctx, "tc", fmt.Sprintf("qdisc add dev %s root handle 1: tbf rate %dbit burst %db limit %db", port, bits, burst, queueBytes))
}

// Pieces has TCP at this process's end hand over no more in one piece than a port of
// so many bit/s on the way lets pass whole, so that no core cuts it into packets, as a
// card would.
func Pieces(ctx context.Context, bits int64) error {
	return Batch(ctx, "ip", fmt.Sprintf("link set %s gso_max_segs %d", wire, pieceOf(bits)))
}

// pieceOf is how many packets of full length are a piece.
func pieceOf(bits int64) int { return (burstBytes(bits) - tickBytes) / packetBytes }

// RateHost bounds what a host's end sends. Its queue is a Linux host's towards its card:
// three bands by priority (pfifo_fast), each of queueBytes. What TCP hands over in one
// piece passes whole (Pieces).
func RateHost(ctx context.Context, port string, bits int64, queueBytes int) error {
	packets := max(1, queueBytes/(pieceOf(bits)*packetBytes))
	err := Batch(ctx, "ip", fmt.Sprintf("link set %s txqueuelen %d gso_max_segs %d", port, packets, pieceOf(bits)))
	if err == nil {
		err = Rate(ctx, port, bits, queueBytes)
	}
	if err != nil {
		return err
	}
	return Batch(ctx, "tc", fmt.Sprintf("qdisc add dev %s parent 1: handle 10: pfifo_fast", port))
}

// RateEnd bounds what this process's end sends, where no switch does.
func RateEnd(ctx context.Context, bits int64, queueBytes int) error {
	return RateHost(ctx, wire, bits, queueBytes)
}

// Delay holds back what a port sends.
func Delay(ctx context.Context, port string, by time.Duration) error {
	return Batch(ctx, "tc", fmt.Sprintf("qdisc add dev %s root netem delay %dus limit 1000000", port, by.Microseconds()))
}

// Forward makes this namespace a switch.
func Forward() error { return Set("net/ipv4/ip_forward", "1") }

// End sets up this process's end of its cable.
func End(ctx context.Context, address, gateway string) error {
	return Batch(ctx, "ip",
		"address add "+address+"/24 dev "+wire,
		"link set lo up",
		"link set "+wire+" up",
		"route add default via "+gateway)
}

// Set writes a kernel's setting of this namespace.
func Set(name, value string) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("link: setting %s to %s: %w", name, value, err)
	}
	return nil
}

// Batch runs ip or tc with some lines.
func Batch(ctx context.Context, program string, lines ...string) error {
	_, err := Command(ctx, strings.Join(lines, "\n")+"\n", program, "-batch", "-")
	return err
}

// Command runs a program; its error is what the program said.
func Command(ctx context.Context, stdin, name string, args ...string) (string, error) {
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
		return "", fmt.Errorf("link: %w; apt-get install iproute2, or %w", err, ErrNoLink)
	case strings.Contains(said.String(), "qdisc kind is unknown"):
		return "", fmt.Errorf("link: this kernel cannot do %q (modules sch_tbf, and for a delay sch_netem): %s", strings.TrimSpace(stdin), OneLine(said.String()))
	}
	return "", fmt.Errorf("link: %s: %w: %s", name, err, OneLine(said.String()))
}

// OneLine is what a program said, in one.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Every process has a cable of its own to the switch, numbered on and on: a server that
// is started again gets another, because the kernel takes its predecessor's away when
// it gets to it.
const wire = "wire" // a process's end

func address(cable int) string { return fmt.Sprintf("10.79.%d.2", cable) }
func gateway(cable int) string { return fmt.Sprintf("10.79.%d.1", cable) }

// maxCables is what the addresses have room for.
const maxCables = 250

// burstTime is how long a port may send at more than its rate.
const burstTime = 100 * time.Microsecond

const packetBytes = 1514

// cableOrder has the switch lay a cable; without PID it only answers.
type cableOrder struct {
	Config Config
	Cable  int
	PID    int
}

type cableSays struct{ Err string }

// serveSwitch is the switch's body.
func serveSwitch(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("chain: forwarding: %w", err)
	}
	for {
		var o cableOrder
		if from.Decode(&o) != nil {
			return nil // the station's end is the end
		}
		var says cableSays
		if err := lay(ctx, &o); err != nil {
			says.Err = err.Error()
		}
		if err := to.Encode(says); err != nil {
			return err
		}
	}
}

func lay(ctx context.Context, o *cableOrder) error {
	port := fmt.Sprintf("port%d", o.Cable)
	burst := max(2*packetBytes, int(o.Config.rate()*burstTime.Seconds()))
	return errors.Join(
		batch(ctx, "ip", []string{
			fmt.Sprintf("link add %s type veth peer name %s netns %d", port, wire, o.PID),
			"address add " + gateway(o.Cable) + "/24 dev " + port,
			"link set lo up",
			"link set " + port + " up",
		}),
		batch(ctx, "tc", []string{fmt.Sprintf("qdisc add dev %s root tbf rate %dbit burst %db limit %db", port, o.Config.RateBits, burst, o.Config.QueueBytes)}))
}

// end sets up this process's end of its cable.
func end(ctx context.Context, cable int) error {
	return batch(ctx, "ip", []string{
		"address add " + address(cable) + "/24 dev " + wire,
		"link set lo up",
		"link set " + wire + " up",
		"route add default via " + gateway(cable),
	})
}

func batch(ctx context.Context, program string, lines []string) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-batch", "-")
	c.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("chain: %s: %w: %s", program, err, strings.Join(strings.Fields(string(said)), " "))
	}
	return nil
}

// namespaces are those that the station gets. Who may not make a network makes a user
// namespace first, and is root in it.
func (c *Config) namespaces() uintptr {
	if c.Link != LinkVeth {
		return 0
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	var d [2]unix.CapUserData
	need := uint32(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN)
	if unix.Capget(&h, &d[0]) == nil && d[0].Effective&need == need {
		return syscall.CLONE_NEWNET
	}
	return syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER
}

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = errors.New("measure over loopback with --link " + LinkNone)

// tools are looked for before anything begins.
func (c *Config) tools() error {
	if c.Link != LinkVeth {
		return nil
	}
	for _, name := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("chain: --link %s: %w: apt-get install iproute2; or %w", LinkVeth, err, ErrNoLink)
		}
	}
	return nil
}

// privilege explains why the kernel gave no namespaces.
func privilege(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("chain: --link %s: network namespaces take root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, or a kernel that lets users make their own (sysctl user.max_user_namespaces): %w; or %w", LinkVeth, err, ErrNoLink)
	}
	return err
}

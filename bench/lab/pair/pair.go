package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names and addresses of the two ends. MTU 4200 lets RDMA use 4096.
const (
	LinkA, LinkB     = "v0", "v1"
	DeviceA, DeviceB = "rxe0", "rxe1"
	AddressA         = "10.77.0.1"
	AddressB         = "10.77.0.2"

	linkMTU = 4200
	table   = "77"
)

// Pair is one that is up.
type Pair struct {
	saved []setting // switches as they were, in the order of change
}

// setting is a file under /proc/sys and what it held.
type setting struct{ path, value string }

// up are the lines for ip -batch. Up to the last two lines local addresses are
// still found as ever, so a machine in use loses no connection.
var up = []string{
	"link add " + LinkA + " type veth peer name " + LinkB,
	"address add " + AddressA + "/32 dev " + LinkA,
	"address add " + AddressB + "/32 dev " + LinkB,
	fmt.Sprintf("link set %s mtu %d up", LinkA, linkMTU),
	fmt.Sprintf("link set %s mtu %d up", LinkB, linkMTU),
	"route add " + AddressA + " dev " + LinkB + " src " + AddressB + " table " + table,
	"route add " + AddressB + " dev " + LinkA + " src " + AddressA + " table " + table,
	"rule add pref 1 iif " + LinkA + " lookup local",
	"rule add pref 2 iif " + LinkB + " lookup local",
	"rule add pref 3 to 127.0.0.0/8 lookup local",
	"rule add pref 10 lookup " + table,
	"rule add pref 11 lookup local",
	"rule del pref 0 lookup local",
}

// down undoes up, last first. Deleting the link takes addresses and routes.
var down = []string{
	"rule add pref 0 lookup local",
	"rule del pref 11 lookup local",
	"rule del pref 10 lookup " + table,
	"rule del pref 3 to 127.0.0.0/8 lookup local",
	"rule del pref 2 iif " + LinkB + " lookup local",
	"rule del pref 1 iif " + LinkA + " lookup local",
	"link del " + LinkA,
}

// settings accept packets from an address that is local, too.
var settings = []setting{
	{"net/ipv4/conf/all/rp_filter", "0"},
	{"net/ipv4/conf/" + LinkA + "/rp_filter", "0"},
	{"net/ipv4/conf/" + LinkB + "/rp_filter", "0"},
	{"net/ipv4/conf/" + LinkA + "/accept_local", "1"},
	{"net/ipv4/conf/" + LinkB + "/accept_local", "1"},
}

// Up makes the pair and waits until it can be used. After an error nothing of
// it is left.
func Up(ctx context.Context) (*Pair, error) {
	if _, err := os.Stat("/sys/class/net/" + LinkA); err == nil {
		return nil, fmt.Errorf("lab: there is a network interface %s already: remove it (ip link del %s), or use --vm", LinkA, LinkA)
	}
	p := &Pair{}
	if err := p.up(ctx); err != nil {
		return nil, errors.Join(err, p.Down(context.WithoutCancel(ctx)))
	}
	return p, nil
}

func (p *Pair) up(ctx context.Context) error {
	if err := batch(ctx, up, false); err != nil {
		return err
	}
	for _, s := range settings {
		path := filepath.Join("/proc/sys", s.path)
		old, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		p.saved = append(p.saved, setting{path, string(old)})
		if err := os.WriteFile(path, []byte(s.value), 0o644); err != nil {
			return fmt.Errorf("lab: setting %s to %s: %w", path, s.value, err)
		}
	}
	for device, link := range map[string]string{DeviceA: LinkA, DeviceB: LinkB} {
		if err := command(ctx, "", "rdma", "link", "add", device, "type", "rxe", "netdev", link); err != nil {
			return err
		}
	}
	return ready(ctx)
}

// Down takes everything away that Up made. What is not there is not missed:
// Up may have failed half way.
func (p *Pair) Down(ctx context.Context) error {
	for _, device := range []string{DeviceA, DeviceB} {
		if _, err := os.Stat("/sys/class/infiniband/" + device); err == nil {
			if err := command(ctx, "", "rdma", "link", "delete", device); err != nil {
				return err
			}
		}
	}
	// The two links' switches go with them.
	if len(p.saved) > 0 {
		if err := os.WriteFile(p.saved[0].path, []byte(p.saved[0].value), 0o644); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
	}
	_ = batch(ctx, down, true) // each line that still applies; judged by what remains
	if _, err := os.Stat("/sys/class/net/" + LinkA); err == nil {
		return fmt.Errorf("lab: the network interface %s is still there: remove it by ip link del %s", LinkA, LinkA)
	}
	return nil
}

// batch hands lines to ip in one process; with force it goes on after an error.
func batch(ctx context.Context, lines []string, force bool) error {
	args := []string{"-batch", "-"}
	if force {
		args = append([]string{"-force"}, args...)
	}
	return command(ctx, strings.Join(lines, "\n")+"\n", "ip", args...)
}

// command runs a program; its error is what the program said.
func command(ctx context.Context, stdin, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(stdin)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("lab: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}

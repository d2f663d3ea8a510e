package lab

import (
	"context"
	"fmt"
	"io"
	"time"
)

// stateScript prints what a connection between the two devices stands on: ports, GIDs
// with their kind and interface, addresses, and the rules and routes that send packets
// over the link instead of lo.
const stateScript = `PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /sys/class/infiniband && for p in */ports/*; do # a port has a thousand places for GIDs
	grep -H . $p/state
	grep -rs . $p/gids $p/gid_attrs | grep -v :0000:0000:0000:0000:0000:0000:0000:0000$
done
ip address; ip rule; ip route show table all; ip neighbour; true`

// showState prints it after a failure: the machine is gone afterwards, and what one
// package's tests have left behind fails another's.
func showState(ctx context.Context, m Machine, w io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fmt.Fprintln(w, "lab: the devices and the link between them after the failure:")
	if _, err := m.Run(ctx, Command{Args: []string{"/bin/sh", "-c", stateScript}, Dir: "/", Stdout: w, Stderr: w}); err != nil {
		fmt.Fprintf(w, "lab: not known: %v\n", err)
	}
}

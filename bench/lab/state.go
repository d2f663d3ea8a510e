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
const stateScript = `cd /sys/class/infiniband && for p in */ports/*; do
	echo "$p: $(cat $p/state 2>&1)"
	for g in $(ls $p/gids); do
		gid=$(cat $p/gids/$g 2>/dev/null) || continue
		case $gid in 0000:0000:0000:0000:0000:0000:0000:0000) ;; *)
			echo "  GID $g: $gid, $(cat $p/gid_attrs/types/$g 2>&1), $(cat $p/gid_attrs/ndevs/$g 2>&1)" ;;
		esac
	done
done
ip address; ip rule; ip route show table all; ip neighbour; true`

// showState prints it after a failure: the machine is gone afterwards, and what one
// package's tests have left behind fails another's.
func showState(ctx context.Context, m Machine, w io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fmt.Fprintln(w, "lab: the devices and the link between them after the failure:")
	if _, err := m.Run(ctx, Command{Args: []string{"sh", "-c", stateScript}, Dir: "/", Stdout: w, Stderr: w}); err != nil {
		fmt.Fprintf(w, "lab: not known: %v\n", err)
	}
}

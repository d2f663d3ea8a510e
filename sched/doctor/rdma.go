package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// rdma is each port of each device, and whether this user may open it.
func (x *examiner) rdma() (all []Finding) {
	for _, dir := range x.glob("sys/class/infiniband/*/ports/*") {
		device := filepath.Dir(filepath.Dir(dir))
		f := Finding{Name: fmt.Sprintf("RDMA port %s/%s", filepath.Base(device), filepath.Base(dir)), State: OK}
		table := x.gids(x.below(dir))
		state := text(filepath.Join(dir, "state"))
		f.Figure = fmt.Sprintf("%s, %s, %s, %s", state, text(filepath.Join(dir, "rate")), gidWords(table), x.node(device))
		if !strings.Contains(state, "ACTIVE") {
			f.State, f.Mend = Warn, "rdma link; ip link set dev "+netdevOf(table)+" up"
		} else if len(table) == 0 {
			f.State, f.Mend = Warn, "ip addr add ADDRESS dev NETDEV"
		}
		all = append(all, f)
	}
	for _, dir := range x.glob("sys/class/infiniband_verbs/uverbs*") {
		file := "dev/infiniband/" + filepath.Base(dir)
		f := Finding{Name: "RDMA access to " + text(filepath.Join(dir, "ibdev")), State: OK, Figure: "/" + file + " can be opened"}
		switch opened, err := os.OpenFile(x.path(file), os.O_RDWR, 0); {
		case err == nil:
			_ = opened.Close() // it was only looked at
		case errors.Is(err, fs.ErrPermission):
			f.State, f.Figure, f.Mend = Missing, fmt.Sprintf("this user (uid %d) may not open /%s", os.Geteuid(), file), "chmod 666 /"+file+", or install rdma-core's udev rules"
		case errors.Is(err, fs.ErrNotExist):
			f.State, f.Figure, f.Mend = Missing, "no /"+file+" (in a container?)", "start the container with --device=/"+file
		default:
			f.State, f.Figure = Warn, err.Error()
		}
		all = append(all, f)
	}
	return all
}

// gid is an entry of a port's table that is set.
type gid struct {
	index        string
	raw          string // as the kernel writes it
	kind, netdev string
}

// gids reads a port's table.
func (x *examiner) gids(port string) (all []gid) {
	for _, g := range x.glob(port + "/gids/*") {
		raw := text(g)
		if strings.Trim(raw, "0:") == "" {
			continue
		}
		i := filepath.Base(g)
		all = append(all, gid{i, raw, x.text(port + "/gid_attrs/types/" + i), x.text(port + "/gid_attrs/ndevs/" + i)})
	}
	return all
}

func netdevOf(table []gid) string {
	for _, g := range table {
		if g.netdev != "" {
			return g.netdev
		}
	}
	return "NETDEV"
}

func gidWords(table []gid) string {
	v2 := 0
	for _, g := range table {
		if strings.Contains(g.kind, "v2") {
			v2++
		}
	}
	if v2 > 0 {
		return fmt.Sprintf("%d GIDs, %d of RoCE v2", len(table), v2)
	}
	return fmt.Sprintf("%d GIDs", len(table))
}

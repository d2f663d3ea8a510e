package dial

import (
	"psrt/rdma"
	"psrt/rdma/shm"
)

// builtin lists the transports of this program, best first.
func (h *Host) builtin() []Transport {
	return []Transport{
		{Name: "shm", Open: func() (rdma.Domain, error) { return shm.New(shm.Config{Purpose: "peers on this host"}) }},
		{Name: "tcp", CrossHost: true, Open: h.openTCP},
	}
}

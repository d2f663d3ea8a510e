package dial

import (
	"psrt/rdma"
	"psrt/rdma/shm"
	"psrt/rdma/verbs"
)

// builtin lists the transports of this program, best first.
func (h *Host) builtin() []Transport {
	return []Transport{
		{Name: "verbs", CrossHost: true, Rails: h.openVerbs},
		{Name: "shm", Open: func() (rdma.Domain, error) {
			return shm.New(shm.Config{Purpose: "peers on this host", OnPanic: h.cfg.OnPanic})
		}},
		{Name: "tcp", CrossHost: true, Open: h.openTCP},
		{Name: "quic", CrossHost: true, Open: h.openQUIC},
	}
}

func (h *Host) openVerbs() ([]rdma.Domain, error) {
	devices := h.cfg.Devices
	devices.Config.OnPanic = h.cfg.OnPanic
	list, err := verbs.Open(devices)
	if err != nil {
		return nil, err
	}
	rails := make([]rdma.Domain, len(list))
	for i, d := range list {
		rails[i] = d
	}
	return rails, nil
}

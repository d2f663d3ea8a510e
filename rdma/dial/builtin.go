package dial

// builtin lists the transports of this program, best first.
func (h *Host) builtin() []Transport {
	return []Transport{
		{Name: "tcp", CrossHost: true, Open: h.openTCP},
	}
}

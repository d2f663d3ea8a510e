package verbs

// QueuePair is the number of the endpoint's queue pair: by it a meter in the
// kernel or the device's counters know whose bytes they count.
func (ep *endpoint) QueuePair() uint32 { return ep.qpn }

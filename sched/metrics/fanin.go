package metrics

import (
	"net/netip"
	"strconv"

	"psrt/sched/psmsg"
)

var (
	linkRate        = gauge("psrt_fanin_link_bytes_per_second", "What the server takes its link to carry.", "device")
	linkRTT         = gauge("psrt_fanin_rtt_seconds", "What a chunk takes from its grant to its last byte, as estimated.", "device")
	linkChunk       = gauge("psrt_fanin_chunk_bytes", "The largest grant.", "device")
	linkWindow      = gauge("psrt_fanin_window_bytes", "How much may be granted and not landed, of all workers together.", "device")
	linkOutstanding = gauge("psrt_fanin_outstanding_bytes", "How much is granted and has not landed.", "device")
	linkWaiting     = gauge("psrt_fanin_waiting_sessions", "Sessions that wait for a grant.", "device")
	linkGrants      = counter("psrt_fanin_grants_total", "Grants made.", "device")
	linkGranted     = counter("psrt_fanin_granted_bytes_total", "Bytes granted.", "device")
	linkLanded      = counter("psrt_fanin_landed_bytes_total", "Granted bytes that have landed.", "device")
	linkLate        = counter("psrt_fanin_late_total", "Times that a session owed bytes and landed none for too long.", "device")
	linkAside       = counter("psrt_fanin_set_aside_total", "Times that a session was so late that nobody waited for it.", "device")
	linkFirst       = counter("psrt_fanin_first_turns_total", "Turns that a straggler took before others.", "device")
	linkPassed      = counter("psrt_fanin_passed_turns_total", "Turns that a hot worker left to others.", "device")

	viewInfo      = gauge("psrt_view_info", "Always 1; the label says what counts, and why that.", "meter")
	viewRead      = gauge("psrt_view_read_seconds", "What the last reading of the meter took.")
	viewLost      = counter("psrt_view_lost_total", "Sources that the meter had no room for.")
	viewBytes     = counter("psrt_view_received_bytes_total", "Bytes that came from a worker, by the meter: the transport's headers may be in them.", "worker")
	viewMessages  = counter("psrt_view_received_messages_total", "Messages likewise; for TCP in the kernel these are segments.", "worker")
	viewRate      = gauge("psrt_view_bytes_per_second", "The same as a rate, smoothed over two seconds.", "worker")
	viewSources   = gauge("psrt_view_sources", "Connections or queue pairs of a worker.", "worker")
	viewStraggler = gauge("psrt_view_straggler", "1: the worker sends less than a quarter of the median.", "worker")
	viewHot       = gauge("psrt_view_hot", "1: the worker sends more than four times the median.", "worker")
	viewSource    = counter("psrt_view_source_bytes_total", "Bytes by where they come from; a worker's connections from one address together.", "worker", "peer", "interface", "queue_pair")
	viewLeftOut   = gauge("psrt_view_sources_left_out", "Sources that psrt_view_source_bytes_total has no room for.")
)

func (s sink) links(links []psmsg.FanInStats) {
	for _, l := range links {
		for m, v := range map[*metric]float64{&linkRate: float64(l.BytesPerSecond), &linkRTT: float64(l.RTTNanos) / 1e9, &linkChunk: float64(l.ChunkBytes),
			&linkWindow: float64(l.WindowBytes), &linkOutstanding: float64(l.OutstandingBytes), &linkWaiting: float64(l.WaitingSessions),
			&linkGrants: float64(l.Grants), &linkGranted: float64(l.GrantedBytes), &linkLanded: float64(l.LandedBytes), &linkLate: float64(l.Late),
			&linkAside: float64(l.SetAside), &linkFirst: float64(l.First), &linkPassed: float64(l.Passed)} {
			s.put(*m, v, l.Device)
		}
	}
}

func (s sink) view(v *psmsg.ViewStats) {
	s.put(viewInfo, 1, v.Meter)
	s.put(viewRead, v.ReadSeconds)
	s.put(viewLost, float64(v.Lost))
	type part struct{ bytes, messages, rate, sources, straggler, hot float64 }
	parts := map[string]part{}
	for _, w := range v.Workers {
		p := parts[worker(w.Worker)]
		p.bytes += float64(w.Bytes)
		p.messages += float64(w.Messages)
		p.rate += w.BytesPerSecond
		p.sources += float64(w.Sources)
		p.straggler, p.hot = max(p.straggler, flag(w.Straggler)), max(p.hot, flag(w.Hot))
		parts[worker(w.Worker)] = p
	}
	for w, p := range parts {
		s.put(viewBytes, p.bytes, w)
		s.put(viewMessages, p.messages, w)
		s.put(viewRate, p.rate, w)
		s.put(viewSources, p.sources, w)
		s.put(viewStraggler, p.straggler, w)
		s.put(viewHot, p.hot, w)
	}
	s.sources(v)
}

// sources shows where bytes come from, without ports: they change with every
// connection.
func (s sink) sources(v *psmsg.ViewStats) {
	type series struct{ worker, peer, inter, pair string }
	list, left := sums[series]{}, v.LeftOut
	for _, f := range v.Sources {
		k := series{worker: worker(f.Worker), peer: address(f.Peer), inter: f.Interface}
		if f.QueuePair != 0 {
			k.pair = strconv.FormatUint(uint64(f.QueuePair), 10)
		}
		if _, known := list[k]; !known && len(list) >= MaxSources {
			left++
			continue
		}
		list.add(k, float64(f.Bytes))
	}
	for k, n := range list {
		s.put(viewSource, n, k.worker, k.peer, k.inter, k.pair)
	}
	s.put(viewLeftOut, float64(left))
}

func address(peer string) string {
	if p, err := netip.ParseAddrPort(peer); err == nil {
		return p.Addr().String()
	}
	return peer
}

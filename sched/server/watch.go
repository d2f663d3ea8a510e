package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/sched/fanin"
	"psrt/sched/probe"
	"psrt/sched/psmsg"
)

// Watch says whether a server looks at who sends how much, and by what.
type Watch uint8

const (
	// WatchOff looks at nothing: all workers are alike.
	WatchOff Watch = iota
	// WatchCounters goes by the lanes' own counts.
	WatchCounters
	// WatchAuto goes by the kernel's counts where this machine and user have a
	// meter for the transport, else by the lanes' own.
	WatchAuto
)

const (
	// defaultWatchEvery is between two looks.
	defaultWatchEvery = 500 * time.Millisecond
	// watchShare bounds the cost: a look that takes long is followed by a pause
	// so many times as long.
	watchShare = 100
	// smoothLooks are the looks that a worker's rate is smoothed over.
	smoothLooks = 4
	// lingerLooks are how long an ended session is still known: a connection's
	// last count may come a look later.
	lingerLooks = 2
)

const ownCounters = "the server's own counters"

// watch looks at the sessions now and then, and tells the links' policies who
// is behind and who is hot. Lanes add to counters and know nothing of it.
type watch struct {
	mode  Watch
	every time.Duration
	links *links
	note  func(string)
	start time.Time
	left  func() map[int]bool
	// open opens the kernel's meter; a test has its own.
	open func(where) (probe.Meter, string, error)

	mu       sync.Mutex // looks are made by run and for who asks
	view     *probe.View
	kernel   probe.Meter
	where    where // that kernel was opened for, or that was tried
	failed   bool  // there is no kernel, or no more
	said     bool
	why      string
	sessions map[*seen]bool
	number   uint32
	byPeer   map[netip.AddrPort]*seen // of sessions that the kernel can count
	byPair   map[uint32]*seen         // likewise, by queue pair
	own      map[probe.Source]int     // whose, in this look
	reading  probe.Reading
	fromKern probe.Reading
	gone     map[int]bool // workers that have left
	took     time.Duration
	at       int64 // of the last look
	closed   bool
}

func newWatch(cfg *Config, k *links, left func() map[int]bool) *watch {
	w := &watch{mode: cfg.Watch, every: cfg.WatchEvery, links: k, note: cfg.Note, start: time.Now(), left: left, open: openMeter,
		sessions: map[*seen]bool{}, byPeer: map[netip.AddrPort]*seen{}, byPair: map[uint32]*seen{}, own: map[probe.Source]int{}, why: ownCounters}
	if w.every <= 0 {
		w.every = defaultWatchEvery
	}
	view, err := probe.NewView(probe.ViewConfig{Workers: w.whose, Smooth: smoothLooks * w.every})
	if err != nil {
		w.mode, w.why = WatchOff, err.Error()
	}
	w.view = view
	return w
}

// where is what a meter in the kernel counts: connections to ports of ours, and
// packets to devices of soft-RoCE.
type where struct {
	ports   []uint16
	devices []string
}

func (a where) equal(b where) bool {
	return slices.Equal(a.ports, b.ports) && slices.Equal(a.devices, b.devices)
}

// openMeter opens a meter for each kind of transport.
func openMeter(at where) (probe.Meter, string, error) {
	var meters []probe.Meter
	var names []string
	add := func(m probe.Meter, name string) { meters, names = append(meters, m), append(names, name) }
	if len(at.ports) > 0 {
		m, err := probe.OpenTCP(probe.TCPConfig{Ports: at.ports})
		if err != nil {
			return nil, "", err
		}
		add(m, "TCP connections")
	}
	if len(at.devices) > 0 {
		m, err := probe.OpenRoCE(probe.RoCEConfig{Devices: at.devices})
		if err != nil {
			return nil, "", errors.Join(err, probe.Together(meters...).Close())
		}
		add(m, "RoCE v2 packets")
	}
	return probe.Together(meters...), "the kernel's counts of " + strings.Join(names, " and ") + " (eBPF)", nil
}

// add begins to look at a session whose endpoint is connected.
func (w *watch) add(s *session, fill func(s *seen, number uint32)) {
	if w.mode == WatchOff || s.seen == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	fill(s.seen, w.number)
	w.sessions[s.seen] = true
	for _, p := range s.seen.peers {
		w.byPeer[p] = s.seen
	}
	for _, p := range s.seen.pairs {
		w.byPair[p] = s.seen
	}
}

// run looks until ctx ends, and takes the meter down.
func (w *watch) run(ctx context.Context) {
	if w.mode == WatchOff {
		return
	}
	defer w.close()
	pause := time.NewTimer(w.every)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		w.look()
		w.mu.Lock()
		pause.Reset(max(w.every, watchShare*w.took))
		w.mu.Unlock()
	}
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.kernel != nil {
		_ = w.kernel.Close() // its descriptors go with the process at the latest
		w.kernel = nil
	}
}

// look reads the counters and lets the policies know what follows. Who asks gets
// a look of his own: he may have waited for what he asks about.
func (w *watch) look() (f probe.FanIn, ok bool) {
	if w.mode == WatchOff {
		return f, false
	}
	gone := w.left()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return f, false
	}
	start := time.Now()
	w.forget(gone)
	w.read()
	now := max(int64(time.Since(w.start)), w.at+1) // a clock may be coarse
	if err := w.view.Update(now, &w.reading); err != nil {
		w.note(fmt.Sprintf("fan-in: %v", err))
		return f, false
	}
	w.at = now
	f = w.view.FanIn()
	w.links.say(words(&f))
	w.took = time.Since(start)
	return f, true
}

// stats is the view for those who ask.
func (w *watch) stats() *psmsg.ViewStats {
	f, ok := w.look()
	if !ok {
		return nil
	}
	w.mu.Lock()
	v := &psmsg.ViewStats{Meter: w.why, PeriodSeconds: w.every.Seconds(), ReadSeconds: w.took.Seconds(), Lost: f.Lost}
	w.mu.Unlock()
	for _, p := range f.Workers {
		v.Workers = append(v.Workers, psmsg.ViewedWorker{Worker: p.Worker, Sources: p.Sources, Bytes: p.Total.Bytes, Messages: p.Total.Messages,
			BytesPerSecond: p.Rate.Bytes, Straggler: p.Straggler, Hot: p.Hot})
	}
	for i, s := range f.Sources {
		if i == psmsg.MaxSources {
			v.LeftOut = len(f.Sources) - i
			break
		}
		v.Sources = append(v.Sources, psmsg.ViewedSource{Worker: s.Worker, Peer: peerName(s.Peer), Interface: s.Interface, QueuePair: s.QueuePair,
			Bytes: s.Total.Bytes, Messages: s.Total.Messages, BytesPerSecond: s.Rate.Bytes})
	}
	return v
}

// peerName is an address, with its port where that tells more.
func peerName(p netip.AddrPort) string {
	switch {
	case !p.IsValid():
		return ""
	case p.Port() == 0:
		return p.Addr().String()
	}
	return p.String()
}

// forget drops the workers that have left the job since the last look, and
// lets in those that are back.
func (w *watch) forget(gone map[int]bool) {
	for worker := range gone {
		if !w.gone[worker] {
			w.view.Forget(worker)
		}
	}
	w.gone = gone
}

// read fills the reading: of the kernel's meter what belongs to a session, of
// the sessions that it does not count their own.
func (w *watch) read() {
	w.openKernel()
	w.sayOwn()
	w.reading.Samples, w.reading.Lost = w.reading.Samples[:0], 0
	clear(w.own)
	if w.kernel != nil {
		if err := w.kernel.Read(&w.fromKern); err != nil {
			w.giveUp(err)
		}
	}
	if w.kernel != nil {
		w.reading.Lost = w.fromKern.Lost
		for _, s := range w.fromKern.Samples {
			if by := w.known(s.Source); by != nil && !w.gone[by.worker] {
				w.reading.Samples = append(w.reading.Samples, s)
			}
		}
	}
	for s := range maps.Keys(w.sessions) {
		if (!s.kernel || w.kernel == nil) && !w.gone[s.worker] {
			source := probe.Source{Peer: s.peer, Interface: s.inter, QueuePair: s.queuePair}
			w.own[source] = s.worker
			w.reading.Samples = append(w.reading.Samples, probe.Sample{Source: source,
				Count: probe.Count{Bytes: s.bytes.Load() - s.base, Messages: s.messages.Load()}})
		}
		if s.over.Load() {
			w.prune(s)
		}
	}
}

func (w *watch) prune(s *seen) {
	if s.lastLook++; s.lastLook < lingerLooks {
		return
	}
	delete(w.sessions, s)
	for _, p := range s.peers {
		if w.byPeer[p] == s {
			delete(w.byPeer, p)
		}
	}
	for _, p := range s.pairs {
		if w.byPair[p] == s {
			delete(w.byPair, p)
		}
	}
}

// openKernel opens the kernel's meter when there is something that it can
// count, again when there are new ports or devices, and says which meter serves and why.
// Only connections to ports of ours are this server's: in one namespace others'
// may come from the same addresses.
func (w *watch) openKernel() {
	if w.mode != WatchAuto || w.failed {
		return
	}
	at := where{slices.Clone(w.where.ports), slices.Clone(w.where.devices)}
	for s := range w.sessions {
		at.ports = append(at.ports, s.ports...)
		if s.device != "" {
			at.devices = append(at.devices, s.device)
		}
	}
	slices.Sort(at.ports)
	slices.Sort(at.devices)
	at.ports, at.devices = slices.Compact(at.ports), slices.Compact(at.devices)
	if at.equal(w.where) {
		return
	}
	first := w.kernel == nil
	w.where = at
	kernel, name, err := w.open(at)
	if err != nil {
		w.giveUp(err)
		return
	}
	if !first {
		_ = w.kernel.Close() // the new one counts what it has counted
	}
	if w.kernel, w.why = kernel, name; first {
		w.note("fan-in is watched by " + w.why)
		w.said = true
	}
}

// sayOwn says why the server's own counters serve, unless the kernel does.
func (w *watch) sayOwn() {
	if w.kernel != nil || w.said || len(w.sessions) == 0 {
		return
	}
	if w.said = true; w.mode == WatchAuto {
		w.why = ownCounters + ": what comes over these transports does not pass the kernel"
	}
	w.note("fan-in is watched by " + w.why)
}

// giveUp goes on with the sessions' own counters, from where they are now if
// the kernel has counted up to here.
func (w *watch) giveUp(err error) {
	if w.kernel != nil {
		err = fmt.Errorf("the kernel's meter serves no more: %w", errors.Join(err, w.kernel.Close()))
		for s := range w.sessions {
			if s.kernel {
				s.base = s.bytes.Load()
			}
		}
	}
	w.kernel, w.failed, w.said = nil, true, true
	reason := err.Error()
	var missing *probe.MissingError
	if errors.As(err, &missing) { // the kernel's own words tell less
		reason = fmt.Sprintf("%s needs %s; %s", missing.Needed, missing.What, missing.Remedy)
	}
	w.why = ownCounters + ": " + reason
	w.note("fan-in is watched by " + w.why)
}

// known is the session that a source of the kernel's belongs to. Only RoCE's
// name a queue pair.
func (w *watch) known(s probe.Source) *seen {
	if s.QueuePair != 0 {
		return w.byPair[s.QueuePair]
	}
	return w.byPeer[s.Peer]
}

// whose says whose a source is: a session's own are made in this look.
func (w *watch) whose(s probe.Source) (int, bool) {
	if worker, ok := w.own[s]; ok {
		return worker, true
	}
	if by := w.known(s); by != nil {
		return by.worker, true
	}
	return 0, false
}

// words are what a view means to the policies.
func words(f *probe.FanIn) map[int]fanin.Word {
	said := map[int]fanin.Word{}
	for _, w := range f.Workers {
		switch {
		case w.Hot:
			said[w.Worker] = fanin.Hot
		case w.Straggler:
			said[w.Worker] = fanin.Behind
		}
	}
	return said
}

// say tells every link's policy about its sessions; a worker without a word is
// plain.
func (s *links) say(words map[int]fanin.Word) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		k.mu.Lock()
		for source, ses := range k.sources {
			if ses != nil {
				_ = k.policy.Say(source, words[ses.worker]) // the number is one of ours
			}
		}
		k.mu.Unlock()
	}
}

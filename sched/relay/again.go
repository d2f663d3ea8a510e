package relay

import "psrt/sched/chain"

// A machine sends again what is not acknowledged in time, and knows nothing of what is
// still on its way here: over a slow link, or to a slow peer, all would go two and three
// times, and the slower for it. So what has been taken, is sent again without a change,
// and which the peer is not done with, is not taken twice, and of a part of an op, cut
// otherwise than before, only what lies behind that. Once the peer is done, it is:
// whether its machine took it, or was in another epoch then, the link does not know.
// Therefore a receiver tells at once that it is done with parts of ops and items.

// key is what makes two messages with parts of ops, or items, the same.
type key struct {
	kind       chain.MessageKind
	epoch, seq uint64
	off, bytes int
	header     chain.Header
}

func keyOf(m *chain.Message) key {
	return key{kind: m.Kind, epoch: m.Epoch, seq: m.Seq, off: m.Off, bytes: len(m.Bytes), header: m.Header}
}

// after says whether k comes later in the order in which a machine sends at first.
func (k *key) after(o *key) bool {
	switch {
	case k.epoch != o.epoch:
		return k.epoch > o.epoch
	case k.seq != o.seq:
		return k.seq > o.seq
	}
	return k.off > o.off
}

// of says whether both are of the same op, or of the same item.
func (k *key) of(o *key) bool {
	return k.kind == o.kind && k.epoch == o.epoch && k.seq == o.seq && k.header == o.header
}

// onItsWay says how many bytes of a message, from its beginning, have been taken and
// are not done at the peer, and whether that is all of it. Else it notes m as taken.
func (o *outgoing) onItsWay(m *chain.Message) (n int, all bool) {
	if !bulk(m.Kind) {
		return 0, false
	}
	k := keyOf(m)
	newest := &o.newest[m.Kind]
	if newest.kind == 0 || k.after(newest) {
		*newest = k
		return 0, false
	}
	// What is on its way arrives in this order: only what follows without a gap counts.
	have := func(w *key) {
		if all = all || *w == k; !all && w.of(&k) && w.off <= k.off+n && n < k.bytes {
			n = max(n, min(k.bytes, w.off+w.bytes-k.off))
			all = n == k.bytes
		}
	}
	for i := o.done + 1; i <= o.sent; i++ {
		have(&o.keys[i%uint64(o.depth)])
	}
	for i := range o.queue.count {
		if w := o.queue.peek(i); w.Kind == m.Kind {
			key := keyOf(w)
			have(&key)
		}
	}
	if k.off += n; !all && k.after(newest) {
		k.bytes -= n
		*newest = k
	}
	return n, all
}

// bulk are the kinds that are sent again in numbers.
func bulk(k chain.MessageKind) bool { return k == chain.Data || k == chain.Feed }

package relay

import "psrt/sched/chain"

// A machine sends again what is not acknowledged in time, and knows nothing of what is
// still on its way here: over a slow link, or to a slow peer, all would go two and three
// times. So what has been taken, is sent again without a change, and which the peer is
// not done with, is not taken twice. Once the peer is, it is: whether its machine took
// it, or was in another epoch then, the link does not know. Therefore a receiver tells
// at once that it is done with parts of ops and items.

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

// onItsWay says whether the same message has been taken and is not done at the peer;
// else it notes m as taken.
func (o *outgoing) onItsWay(m *chain.Message) bool {
	if !bulk(m.Kind) {
		return false
	}
	k := keyOf(m)
	newest := &o.newest[m.Kind]
	if newest.kind == 0 || k.after(newest) {
		*newest = k
		return false
	}
	for i := range o.queue.count {
		if w := o.queue.peek(i); w.Kind == m.Kind && keyOf(w) == k {
			return true
		}
	}
	for n := o.done + 1; n <= o.sent; n++ {
		if o.keys[n%uint64(o.depth)] == k {
			return true
		}
	}
	return false
}

// bulk are the kinds that are sent again in numbers.
func bulk(k chain.MessageKind) bool { return k == chain.Data || k == chain.Feed }

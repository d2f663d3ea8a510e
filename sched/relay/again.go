package relay

import "psrt/sched/chain"

// A machine sends again what is not acknowledged in time, and knows nothing of what
// still waits here: a slow peer would get more and more of the same. So what waits, and
// is sent again without a change, is not taken twice. What is in records is: whether the
// peer's machine took it, or was in another epoch then, the link does not know; but that
// is one ring at most, and waits itself the next time.

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

// waits says whether the same message has been taken and is in no record yet; else it
// notes m as taken.
func (o *outgoing) waits(m *chain.Message) bool {
	if m.Kind != chain.Data && m.Kind != chain.Feed {
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
	return false
}

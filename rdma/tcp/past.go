package tcp

import "errors"

// past are the endpoints that were closed last: a peer that has their address may still call,
// and is no stranger. With Domain.mu.
type past struct {
	ring [pastEndpoints]ended
	next int
}

type ended struct {
	id    uint64
	nonce [nonceSize]byte
}

const pastEndpoints = 64

// errEnded is for who comes to an endpoint that was closed meanwhile.
var errEnded = errors.New("tcp: the endpoint is closed")

func (p *past) add(ep *endpoint) {
	p.ring[p.next] = ended{ep.id, ep.nonce}
	p.next = (p.next + 1) % pastEndpoints
}

// late says whether a hello is for an endpoint that was closed, from somebody who has its
// address.
func (d *Domain) late(h *hello, raw []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.past.ring {
		if e := &d.past.ring[i]; e.id == h.target && e.id != 0 {
			return proved(raw, &e.nonce)
		}
	}
	return false
}

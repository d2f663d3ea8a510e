// Package patience settles how long a poller spins before it sleeps.
//
// It owns the rule and no clock: whoever waits tells it how long waits were. It
// must not know what is waited for.
//
// The rule is the halt polling of hypervisors (Linux, virt/kvm: halt_poll_ns).
// A wait that a little more spinning would have served doubles it, one that
// none could have served takes it back, and so does one that held a core which
// others wanted. Going to sleep and being woken costs up to 50 us on a virtual
// machine, so a requester whose requests come every 100 us is served twice as
// fast.
//
// The life of a wait: it spins for Budget; past Base it offers its core to
// other processes now and then and tells Yielded how long they kept it; when it
// had to sleep, it tells Waited how long it waited in all.
package patience

// Package shm is the transport between processes of one user on one host. The
// peer's registered memory is mapped, so a write is one copy from the source
// straight to its destination, done by the poster, and a doorbell (a write
// with immediate without bytes) is one store.
//
// It owns memfds, their mappings, the unix socket by which descriptors travel,
// and the futex that wakes a sleeping peer. It must not know what the bytes
// mean, nor why this transport was chosen.
//
// The life of one write with immediate:
//
//  1. Both domains listen on a unix socket; Address names it. Connect: the
//     endpoint with the smaller id dials, both prove the nonce of the other's
//     address, the kernel vouches for the user, and each sends the descriptors
//     of its ring (receives and arrivals), its queue's bell and its domain's
//     table of open regions.
//  2. The receiver's PostRecv stores a slot and the count of posted receives
//     in its own ring, where the sender reads them.
//  3. Post looks for the mapping of the remote region. The first time there is
//     none: the request waits, the owner's control goroutine is asked over the
//     socket and answers with the region's descriptor (read-only unless its
//     Access says otherwise); Poll carries on. After that Post copies at once.
//  4. Post stores the arrival into the receiver's ring and rings its bell,
//     which costs a load unless the receiver sleeps.
//  5. The receiver's Poll finds the arrival by its tag. Wait spins for
//     Caps.SpinMicros, or up to eight times that where earlier waits were so
//     short, then says in the bell that it sleeps, looks again, and sleeps on
//     a futex.
//
// Memory is given back safely by guards: whoever closes a region or an
// endpoint makes it unreachable, then waits until the stretch that may have
// seen it (of our own goroutines, and by a shared word, of the peer) has ended.
// What Map gave away is outside the guards, but for a stretch between Enter and Leave.
//
// Everything read from shared memory is the peer's word and is checked:
// positions are masked, lengths and offsets compared with the mapping, files
// accepted only if sealed against shrinking. A peer that writes nonsense gets
// its connection broken with StatusRemoteInvalid.
//
// Faults survived: the peer killed at any instruction (its memory stays
// mapped, the socket's end or its pidfd tells, within a second), stopped
// (requests that need it time out), closing regions while they are written,
// filling the control socket, writing garbage into the rings. Not survived: a
// machine without memory left for pages of a lent region that were never
// touched (SIGBUS at the writer); pre-fault arenas.
//
// Locks, in order: region.mu, Endpoint.mapMu, Domain.mu, Endpoint.mu;
// Queue.mu is taken under Domain.mu and under none of the others' critical
// sections but its own. Post, PostRecv and Poll take none unless a request
// waits.
package shm

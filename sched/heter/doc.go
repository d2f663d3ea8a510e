// Package heter is the link between a rank that has rows and a rank that has layers, of
// a job whose two halves of a model are computed by ranks of different kinds: activations
// go up, their gradients come down, leaf by leaf.
//
// It owns the memory at both ends, who may write where, the order of posts, and how the
// death of the other end is noticed. It must not know what the floats mean, nor models,
// clocks, servers or files: a message is a Head and floats.
//
// # The life of a leaf
//
//	lower rank                                  upper rank
//	Room: computes its activations there
//	Send ------------- one write, with the ---> Poll gives it as an Arrival
//	                   place as its immediate   Room: computes the gradients there
//	Poll gives it as an Arrival <-------------- Send
//
// A place is a slot (the step's number modulo Shape.Slots) and a leaf. It has memory of
// its own at both ends and in both directions, of Shape.Floats floats. Where the peer's
// memory is mapped (shm) Room is the peer's memory itself, and nothing is moved.
//
// # Bounds
//
// The lower rank uses a place again only when its answer has come: so both ends have as
// many receives posted as there are places, nothing that is read is written over, and no
// other credit is needed. The upper rank sends nothing but answers.
//
// # Death
//
// A peer whose process ends closes the control connection, or a request to it fails. One
// that is stopped answers no "alive": whoever dialled asks for it, and gives the peer up
// after Options.Silence. Hub.Err names it either way.
//
// Where Options.Again says so a death is no end: Link is what outlives connections, wire is
// one of them. What a link has sent last at each place lies in memory of its own then. A
// lower rank dials whoever has the upper one's number next, by itself, whatever its owner
// does, and sends again what that one lacks and what is not answered; it uses no place again
// before all answers to it have come, and gives its owner the first. An upper rank answers
// with what it kept what it had answered. Links in that form copy each message once.
//
// # Behind the last leaf
//
// What the upper rank does with leaves that it has answered is done when Flush returns at
// the lower rank: the upper one finds it among Flushes, and closes its channel then. One
// that has taken another's place gets the leaves again that it lacks for that.
//
// # The end
//
// Each lower rank says Bye. When all have, the upper rank sees Hub.Over, does what it has
// to do, and calls Finish with its report: that answers the Byes.
//
// # Goroutines
//
// A Hub and its links belong to one goroutine from Ready on. Beside it, each connection
// has one that answers control calls, and at the lower rank one that asks for "alive" and
// dials again; accepting has one. These install and drop wires: Link.mu is over a link's
// wire and all posts on it, Hub.mu under it.
package heter

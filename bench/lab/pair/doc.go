// Package pair makes two soft-RoCE devices on the two ends of a veth pair, on
// one machine, such that what one sends to the other crosses the pair.
//
// It owns the addresses, routes, rules and switches for that, and their undoing
// in reverse order. It must not know whether the machine is a guest of the lab
// or the user's own, nor who will use the devices.
//
// Both addresses are local, and the kernel delivers to local addresses over lo:
// nothing would cross the pair, and no rate limit, loss or capture there would
// see it. So the table of local addresses is asked last, after a table that
// sends each address to the other end; only what comes in from the pair, and
// 127.0.0.0/8, is looked up in it first. Namespaces would be simpler, but before
// Linux 6.13 rxe works in the first one only: elsewhere it looks active and
// passes nothing.
//
// The life of a pair: Up makes it and waits until both devices have their
// address as a GID; Cross sends a datagram and demands that both ends counted
// it; Count reads what has crossed so far; Down takes everything away.
package pair

// Package deal is who gets the next part of some work that devices share: a server one of
// a host's cards, a lane's rows one of a server's devices.
//
// It owns the choice alone, purely. It must not know what devices are, or how their speed
// is measured.
//
// The life of a choice: the caller counts what each device has, has measured how fast
// unlike ones are, asks Next, and counts one more. Parts are alike and dealt one by one:
// the slowest of them gets as much of its device as in any dealing (TestNext).
package deal

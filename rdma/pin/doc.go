// Package pin keeps threads on CPUs.
//
// It owns the call that does it. It must not know who runs where and why: lanes of
// servers and stages of workers say that.
//
// The life of one thread: a goroutine that is to stay somewhere calls Hold, or Node, as
// the first thing that it does; it is locked to its thread from there on, and both end
// together.
package pin

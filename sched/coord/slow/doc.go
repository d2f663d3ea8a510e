// Package slow wraps a coordinator whose calls may take long: each is known to a
// stall.Watch while it lasts.
//
// It owns the words for each call. It must not know what the keys mean. Watches
// are not calls: who waits for an event says so himself.
//
// The life of a call: Begin, the call of the coordinator below, the end.
package slow

// Package member says which servers take part: who is suspected, who may serve, and
// which map comes next.
//
// It owns beats between servers and what follows from them (Peers) and the decision
// on the next map (Decide). It must not know
// transports, the store or the time: times are arguments, by the caller's clock.
//
// # The life of a failure
//
//	Broken, or no answer for Suspect      Peers.Suspects
//	Decide                                the map without it, groups' epochs new
//	the store: compare and swap           one proposer wins; its revision is the epoch
//	Adopt, everywhere                     beats confirm nothing older any more
//	Released                              the lease of those cut out has ended
//	Fenced                                the new tail commits, and is read
//
// A lease is from all other members of a chain, not from the store: when the
// store is gone training goes on, and only changes wait.
package member

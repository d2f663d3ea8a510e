// Package densesplit says which dense blocks travel by the servers and which by the
// workers' all-reduce, where a job uses both at once (--dense mixed).
//
// It owns the computed optimum: seconds that were measured in, lanes out. It must not
// know how they were measured nor what is in a block. It is pure.
//
// The life of one choice: before the first step each worker has measured what the whole
// vector takes either way; all agree on the slowest worker's seconds, and each makes the
// same choice from them. Both ways run at the same time, so that a step waits for the
// slower one: the best share is the one with which both end together. A lane of a server
// is the unit, as it is asked and answered as a whole; so of the shares that lanes allow
// the best is taken.
package densesplit

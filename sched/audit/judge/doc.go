// Package judge decides, from the records of package audit, whether a training
// job's servers kept the promise of its consistency mode. docs/audit.md says what
// is promised and how it is decided.
//
// It owns the second opinion: it puts the pushes together again, in the order that
// the lanes recorded, with additions of its own, and compares every sampled value
// that a worker was given with what it must have been, bit for bit. It must not
// know the server or the client, and shares no code with them but the optimizers
// (tiers).
//
// # The life of a record
//
//	load    files of one run; what is torn is noted
//	index   by lane and table: pushes, pulls, and what the lane did, in order
//	stitch  several records of one lane (replicas, processes started again) are one
//	order   each acknowledged push is in it once; each pull sees what its clock allows
//	replay  each value is that of the version which its answer names
//	explain what was seen instead: which push is missing, counted twice, early, torn
package judge

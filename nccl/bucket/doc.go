// Package bucket makes one all-reduce of several: a long vector is cut into buckets, and
// while one of them is added, what was added before is used. How long a bucket should be
// is measured.
//
// It owns the cuts, the order of the calls and the choice of a length. It must not know
// what the numbers are, nor which group adds them.
//
// The life of one measurement: Sizes are the lengths worth trying for a vector. With each
// of them all ranks add a vector as they will, a few times; Measure gives the seconds of
// the slowest rank, which all ranks then have alike, and Choose makes the same choice of
// them everywhere. Then Reduce takes the place of a call: where the vector is one bucket it
// is that call.
//
// Elements are added in the group's order however the vector is cut, so that a choice
// changes no bit.
//
// Bounds: ahead calls are under way; a measurement moves at most MostBytes
// rounds times for each of the Sizes.
package bucket

// Package turns lets a loop and its limit take turns, and makes a row of a
// report of what both reached.
//
// It owns the order of the turns, the medians over the rounds and the units. It
// must not know what a loop does, nor flags.
//
// The life of one row: the first round of both warms caches, pages and clocks
// and does not count (and is left out where cold is what is measured). In every
// round after it both loops play once, the one that begins being the other one
// each time, each reporting the time and the CPU time that its own work took.
// The bandwidths and rates of the row are the medians of its rounds; its ratio
// is the median of the rounds' ratios.
package turns

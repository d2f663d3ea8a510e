// Package usage measures what this process has used so far: peak memory and CPU
// time, which every rank reports, and the busy time of a stage of goroutines.
// It must not know who asks.
//
// The life of one request: Process asks the kernel (getrusage) and converts; a
// Clock runs from the first Enter until as many Leaves.
package usage

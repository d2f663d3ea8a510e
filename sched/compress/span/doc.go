// Package span settles how many steps of gradients a worker adds up before it sends them:
// rows that come back in each step then travel once for several.
//
// It owns the count and the trials by which it moves. It must not know rows, connections
// or clocks: it is told the time, in seconds, when a step is pushed, and whether pushes of
// earlier steps are waiting, and says whether what was kept goes with it. It is pure.
//
// # The life of a trial
//
//	some windows with the span in use     their mean step is the base; were pushes
//	                                      waiting, the link may be the bottleneck
//	a window with twice or half of it     twice only where they were. The first steps
//	                                      do not count: pushes of the span before are
//	                                      on their way
//	judged                                twice is taken where steps were shorter by
//	                                      more than chance and a fiftieth; half where
//	                                      they were not longer by as much, for what
//	                                      is sent sooner learns better
//	not taken                             the next trial is twice as far off
//
// So where the link is not the bottleneck the span stays 1 without a trial, and where it is
// and merging does not help, trials become rare.
package span

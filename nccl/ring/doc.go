// Package ring is the collectives of package coll over psrt's own transports: among
// the processes of a host through shared memory, between hosts over verbs or tcp, in
// any mixture.
//
// It owns the connections of a group, the words that ranks exchange around a call,
// and who moves which bytes when. It must not know what the numbers mean, nor how
// ranks find each other's addresses.
//
// Every rank has an endpoint to every other. A reduction is cut into as many
// segments as there are ranks, and each rank owns one: it reads that segment from
// all others, combines all of them in one pass, in the order that was given, and
// writes the result to all others. Each rank sends and receives what the classic ring
// does, (n-1)/n of the vector each way, both ways at once, but in two steps instead
// of 2(n-1), and with an order of additions that does not depend on who owns what:
// that of the parameter servers, so that a model is the same to the bit either way.
// Where ranks of several hosts are in a group, all-reduces are made inside the hosts
// first, then between them, so that each host's link carries a vector once; see levels.go
// and package hier. The order of additions stays the same.
//
// Ranks walk around the ring, each beginning behind itself, so that they do not meet
// at one.
//
// The life of one all-reduce:
//
//	rank r                                       rank p, and all others
//	begin{call, ranges of Send and Recv}  ---->
//	                                      <----  begin{...}
//	mapped (shm): for each piece of segment r
//	  fold the piece of all Sends, where they lie, into all Recvs, where they lie
//	else: reads of p's Send, some chunks ahead, into landing memory;
//	  fold a chunk when it is there; write it to p's Recv
//	done                                  ---->
//	                                      <----  done
//
// What is small travels within begin, and the call is over when all have begun. So it
// is with what is not so small, between two ranks whose memory is not mapped: each
// writes all it has where the other can fold it, and begin after it (direct.go).
// Nobody moves on before everyone's done has come: then every byte has landed and
// nobody reads here any more.
//
// Whoever makes a call polls. Beside it, each connection has a goroutine that
// answers control calls: "abort", by which a rank that gave up names the culprit to
// the others, and "where", by which one whose time is over tells the ranks that
// merely wait from the one that is dead or late.
//
// Bounds: messages under way, 2 calls' (a rank cannot begin call n+2 before all have
// begun n+1 and so are done with n) of at most three words, within messageSlots receives; reads under way,
// the landing memory; requests of an endpoint, its depth.
package ring

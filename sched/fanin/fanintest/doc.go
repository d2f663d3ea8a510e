// Package fanintest simulates many workers that push to one receiver through a
// switch, to show what the rule of package fanin is worth beside sending at
// will.
//
// It owns the model and its figures; docs/fan-in.md is written from it. It must
// not know the server: the same Policy that a server runs is run here, its
// estimates included.
//
// # The model
//
// Every worker has its own line into one switch, which has one line, of the
// same speed, to the receiver, with a first-in-first-out queue in front. Time
// is in nanoseconds, a packet is at most 4 KiB, headers take no time. A quarter
// of the round trip lies between any two neighbours. Workers take a random time
// to react to a grant; the receiver takes a fixed time for each completion, one
// at a time. Messages back to the workers (grants, acknowledgements, answers)
// wait in no queue.
//
//	Granted  workers announce 4 MiB at a time, two ahead, and send what they
//	         are granted; at the start the receiver has a wrong guess of both
//	         rate and round trip
//	Blast    every worker keeps a bandwidth-delay product on its way. A full
//	         queue drops; the receiver asks for the first missing packet, the
//	         sender goes back to it, or does so after a timeout: what a
//	         reliable queue pair does
//	Pause    as Blast, but the switch pauses, for each line, whose part of the
//	         queue is above the dynamic threshold (PFC); it has all the
//	         headroom it needs, so nothing is lost
//
// Beside the pushes random workers send pulls of 256 bytes, unannounced. They
// overtake the pushes in the worker, not in the switch.
//
// # The life of a packet
//
// uplink takes it from its worker when the line is free, arriveSwitch gives it
// its place in the queue (whose length is known from when it will be empty, so
// nothing is stored) and deliver hands it to the receiver, which counts.
package fanintest

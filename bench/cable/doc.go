// Package cable makes links of a benchmark's own: network namespaces, cables between
// them and a switch, whose ports have a rate and a queue, and the measure of such a link
// by a plain TCP stream.
//
// It owns how ip and tc are called, which privilege that takes and what is said where it
// is missing, and the start of a run's other processes by role. It must not know what is
// measured over the links, nor what the processes say.
//
// The life of one link: a run starts the program again in Namespaces (Start); in there a
// switch, and each process that gets a namespace of its own; the switch lays a cable to it
// (Lay, Rate or RateHost) and forwards (Forward); the process sets up its End. The namespaces have no
// names and end with their processes.
package cable

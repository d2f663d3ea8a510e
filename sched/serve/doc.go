// Package serve is `psrt serve`: one server for trainers that are not psrt's
// own, which come and go as they like.
//
// It owns the tables file (what a table is, in YAML), the server's life from the
// readiness line to the last save, and what makes servers of sched/server stand
// alone (Server: a map of one server or of a Group that meets at a coordinator), or in
// groups with replicas (Replica); a place in the clocks for every trainer that is
// there, tables that exist from the first use. It must not know flags, the client, or
// what trainers compute. Who loads, saves and ends replicas is sched/serve/keeper.
//
// # The life of a server
//
//	ReadTables        the file, checked line by line; rules of users are tried
//	New               listens; loads a saved model
//	Ready             one JSON object: where, what; trainers may come
//	Run               until its context ends: then connections end, the model is
//	                  saved where that was asked for, and everything is closed
//
// # Faults survived
//
// A trainer that is killed: its place in the clocks is given up after ReconnectFor.
// The server killed and started again: trainers connect again, and go on with what
// was loaded; pushes since the last save are lost, as documented. A second server
// on the same address: an error. A server of a Group that does not save its part:
// the model that was there stays.
package serve

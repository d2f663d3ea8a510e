// Package exchange moves rows of a data set between the workers that keep them.
//
// It owns the connections between workers for that, and the memory that rows lie in on
// their way. It must not know what a row is, why it is wanted, nor how workers find
// each other's addresses: what is packed and taken is bytes (dataset.RowExchange).
//
// Each worker is a Member: it listens, and it dials whom it wants rows from. There is
// one connection for each direction, and one request at a time on it, so nobody waits
// for anybody but who has the rows.
//
// The life of a request:
//
//	wants                                          keeps
//	Fetch(rows)
//	call "rows"{numbers, landing}   -- control -->  pack as many as fit into staging
//	                                <-- write ----  staging -> landing, over the transport
//	                                <-- control --  how many, how many bytes
//	take(landing)
//
// A row that is longer than the landing memory is told of, and asked for again with
// more. A member that has not read its files yet says so, and is asked again: there is
// no bound on how long reading takes, only on how long a member may say nothing
// (Options.Timeout). One whose connection has ended is looked up and dialled again
// within that time: another process may have taken its place.
//
// Bounds: landing and staging memory, landingBytes for each connection and at most
// maxRow where a row needs it; the numbers of a request, maxRows; connections in, one
// for each other member, more are refused.
//
// Locks, in order: Member.mu alone; a peer belongs to whoever fetches from it.
package exchange

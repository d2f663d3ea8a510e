// Package dial joins two processes of a job: it opens the authenticated control
// connection, lets both sides say what they are and can do, chooses the
// transport and says why, connects the endpoints, and keeps the control
// connection as a small request/response channel whose end means that the peer
// is gone.
//
// It owns the handshake, the choice and the fallback. It is the only package
// of the floor that knows all transports. It must not know what the endpoints
// are for: the application's words travel as opaque bytes (hello, reply).
//
// The life of one connection:
//
//	dialer                                             listener
//	secure.Dial  ------------------------------------> secure.Accept
//	hello{version, host, offers, app hello,
//	      count, twins} ------------------------------> Accept yields Incoming
//	                                                   Finish(attach, reply)
//	             <-- try{transport, reason, addresses,
//	                     twins}                        attach called per endpoint
//	attach called per endpoint
//	tried{addresses} -------------------------------->
//	          both sides connect all endpoints
//	outcome{error} ----------------------------------> either failed: try the
//	             <------------- ready{reply}           next transport, or refuse
//	             calls in both directions, until the connection ends
//
// Every step has a deadline (Config.StepTimeout). A peer that fails before
// ready costs the listener nothing but that one Incoming.
//
// Twins are a second endpoint beside each, for who has two kinds of traffic of which
// neither shall stand behind the other. They are made where the dialer offers them and
// the listener wants them; an older program does neither.
//
// A Mux makes the completion queues of several domains look like one, so that
// a lane serves peers on different transports with one Poll and one Wait.
package dial

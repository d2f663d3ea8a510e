// Package ibperf runs the tools of the linux-rdma project's perftest
// (ib_write_lat, ib_write_bw, ib_read_bw) between two devices of this machine,
// so that a benchmark can take turns with them.
//
// It owns the two processes of a run and the reading of their table. It must
// not know what their figure is compared with.
//
// The life of one run: a server process on one device, a client on the other,
// joined over the loopback interface; the client's table is read, both have
// ended when Run returns.
package ibperf

package dial

// PeerFiles is about how many files a process has open for a peer with so many endpoints:
// the control connection, and those of each endpoint. Auto has those of the transport that
// has most of verbs, shm and tcp.
func PeerFiles(transport string, endpoints int) int {
	each := map[string]int{"tcp": 3, "quic": 9}[transport]
	if each == 0 {
		each = 5 // shm
	}
	return 1 + each*endpoints
}

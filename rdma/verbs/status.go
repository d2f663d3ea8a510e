package verbs

import (
	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// sendStatus translates the outcome of a request.
func sendStatus(s uint32) rdma.Status {
	switch s {
	case ibv.StatusSuccess:
		return rdma.StatusOK
	case ibv.StatusFlushed:
		return rdma.StatusFlushed
	case ibv.StatusLocalLength:
		return rdma.StatusLocalLength
	case ibv.StatusLocalProtection, ibv.StatusLocalAccess:
		return rdma.StatusLocalProt
	case ibv.StatusRemoteAccess:
		return rdma.StatusRemoteAccess
	case ibv.StatusRetryExceeded, ibv.StatusResponseTimeout, ibv.StatusLocalQPOperation:
		// The last is what soft-RoCE says when the route to the peer is gone.
		return rdma.StatusRetryExceeded
	case ibv.StatusRNRExceeded:
		return rdma.StatusRNR
	case ibv.StatusRemoteAborted:
		return rdma.StatusPeerGone
	}
	return rdma.StatusRemoteInvalid // remote invalid request, remote operation and what is unknown
}

// recvStatus translates the outcome of a receive. A message that is too long
// for it is "remote invalid request" on some devices, "local QP operation" on
// soft-RoCE.
func recvStatus(s uint32) rdma.Status {
	if s == ibv.StatusRemoteInvalid || s == ibv.StatusLocalQPOperation {
		return rdma.StatusLocalLength
	}
	return sendStatus(s)
}

package shm

func runPeer() bool { return false }

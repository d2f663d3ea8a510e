// Package nvml asks NVIDIA's management library, libnvidia-ml.so.1, how GPUs reach each
// other: nothing of it is linked, and where it is not there Load says so.
//
// It owns loading and the few prototypes. It must not know what cards are used for: no
// context is made, no memory of a card taken.
//
// The life of a question:
//
//	Load          the library, once a process: nvmlInit_v2; it is never shut down
//	Links         the NVLinks of a card that are up
//	Between       what two cards have between them
//
// The library's answers may take as long as its driver: who asks bounds that. Any goroutine
// may call. Without cgo Load answers ErrNotSupported.
package nvml

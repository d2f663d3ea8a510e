// Package device is push and pull for trainers whose rows and gradients lie in a
// GPU's memory: a layer over sched/kv.
//
// It owns the staging memory between servers and GPUs, and the order in which it is
// used. It must not know tables, keys or C: what moves rows between servers and a
// piece of the host's memory is handed to it.
//
// # The life of a pull
//
//	Into            the address is looked up: which device has it
//	take            staging: memory that the servers write straight into (kv's
//	                Alloc), pinned, so that the device copies it fastest
//	pull            sched/kv, as for any memory
//	CopyIn          on the caller's stream, with an event behind (where staging is not
//	                pinned, when the stream has come there); the call returns:
//	                what is put on that stream from then on sees the rows
//	give            staging is taken again when the event has passed
//
// # The life of a push
//
//	From            as above
//	CopyOut, await  behind what is on the caller's stream; waits until the gradients
//	                are out
//	push            sched/kv
//
// # Memory that is registered
//
// Register has servers reach a GPU's memory themselves, where all are reached by RDMA: by
// a dma-buf, else by its addresses. A call with such memory waits for the caller's stream,
// is handed that memory itself, and ends with a flush where the driver wants one.
// sched/kv refuses it (kv.ErrNotDirect) where a CPU would have to touch the rows: it then
// goes through staging, as does a push that is asynchronous, whose gradients may be changed
// when it has begun.
//
// An asynchronous pull is done when its copy is on the stream; an asynchronous push
// begins when its gradients are out, so what the caller then writes over them does
// not matter.
//
// # What fails
//
// No driver, an address of no device, a device that refuses a copy, a stream that is not
// over in the call's time: an Error of sched/kv with code Device, Invalid or Timeout, before
// anything was sent for a push, and without a ticket for a synchronous pull. Staging that
// cannot be pinned is used as it is, which is slower and said in Report: each call waits for
// its stream, as the driver would let a copy there take any time. A device's error stays:
// every later call has it.
//
// # Bounds
//
// One piece of staging a call under way, at most maxRooms; maxBehind more a device that
// streams have to come to, beyond which calls wait; of those that nobody uses keepRooms
// are kept.
package device

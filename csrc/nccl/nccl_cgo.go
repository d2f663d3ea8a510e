//go:build cgo

package nccl

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include "nccl.h"
// #include <stdlib.h>
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Library is a loaded one.
type Library struct{ at *C.psrt_nccl }

var (
	lock   sync.Mutex
	loaded = map[string]*Library{} // by path: none is ever given back
)

// Load loads a library: path, else what Variable names, else Name.
func Load(path string) (*Library, error) {
	path = cmp.Or(path, os.Getenv(Variable), Name)
	lock.Lock()
	defer lock.Unlock()
	if l := loaded[path]; l != nil {
		return l, nil
	}
	file := C.CString(path)
	defer C.free(unsafe.Pointer(file))
	var why [512]C.char
	at := C.psrt_nccl_load(file, &why[0], C.size_t(len(why)))
	if at == nil {
		return nil, fmt.Errorf("%w: %s; %s", ErrNotSupported, C.GoString(&why[0]), Remedy)
	}
	loaded[path] = &Library{at}
	return loaded[path], nil
}

// Version is the library's, as a number.
func (l *Library) Version() int { return int(C.psrt_nccl_version(l.at)) }

// Registers says whether Comm.Register is there.
func (l *Library) Registers() bool { return C.psrt_nccl_has(l.at)&C.PSRT_NCCL_HAS_REGISTER != 0 }

// Returns says whether Init returns at once, so that its time can be bounded.
func (l *Library) Returns() bool { return C.psrt_nccl_has(l.at)&C.PSRT_NCCL_HAS_CONFIG != 0 }

func (l *Library) failed(call string, rank int, comm unsafe.Pointer, r C.int32_t) error {
	if Result(r) == Success || Result(r) == InProgress {
		return nil
	}
	var text [512]C.char
	C.psrt_nccl_text(l.at, r, comm, &text[0], C.size_t(len(text)))
	return &Error{Call: call, Rank: rank, Result: Result(r), Text: C.GoString(&text[0])}
}

// UniqueID makes an id for a communicator to come, at one of its ranks.
func (l *Library) UniqueID() (id ID, err error) {
	err = l.failed("ncclGetUniqueId", -1, nil, C.psrt_nccl_id(l.at, (*C.uint8_t)(&id[0])))
	return id, err
}

// Comm is a rank's end of a communicator.
type Comm struct {
	lib *Library
	// C's memory, where the library writes which communicator it is, by threads of its own,
	// too, when Init has returned; nil where it was given back.
	slot *unsafe.Pointer
	rank int
	busy bool // the last call that gave a stream work
}

// Init begins to make this rank's end, with all others. Where Returns is so, State tells
// when it is made.
func (l *Library) Init(id ID, rank, ranks int) (*Comm, error) {
	c := &Comm{lib: l, rank: rank, slot: (*unsafe.Pointer)(C.calloc(1, C.size_t(unsafe.Sizeof(unsafe.Pointer(nil)))))}
	r := C.psrt_nccl_init(l.at, C.int32_t(ranks), (*C.uint8_t)(&id[0]), C.int32_t(rank), c.slot)
	if err := l.failed(fmt.Sprintf("ncclCommInitRank of %d ranks", ranks), rank, nil, r); err != nil {
		c.forget()
		return nil, err
	}
	return c, nil
}

// at is the communicator now; nil is none, which the library refuses.
func (c *Comm) at() unsafe.Pointer {
	if c.slot == nil {
		return nil
	}
	return *c.slot
}

func (c *Comm) forget() {
	C.free(unsafe.Pointer(c.slot))
	c.slot = nil
}

func (c *Comm) failed(call string, r C.int32_t) error { return c.lib.failed(call, c.rank, c.at(), r) }

// given is how a stream was given work, of which text says what it was, with n. The words are
// made where it failed alone: a call of one rank is some microseconds.
func (c *Comm) given(text string, n int, r C.int32_t) error {
	c.busy = Result(r) == InProgress
	if c.busy || Result(r) == Success {
		return nil
	}
	return c.failed(fmt.Sprintf(text, n), r)
}

// Busy says whether the last call that gave a stream work goes on by itself, as State tells.
func (c *Comm) Busy() bool { return c.busy }

// State says whether a call goes on by itself, and what failed since.
func (c *Comm) State() (busy bool, err error) {
	var state C.int32_t
	if err := c.failed("ncclCommGetAsyncError", C.psrt_nccl_state(c.lib.at, c.at(), &state)); err != nil {
		return false, err
	}
	return Result(state) == InProgress, c.failed("a call that was under way", state)
}

// Finalize begins to end what was given to streams; State tells when it is over.
func (c *Comm) Finalize() error {
	return c.failed("ncclCommFinalize", C.psrt_nccl_finalize(c.lib.at, c.at()))
}

// Destroy gives it back.
func (c *Comm) Destroy() error {
	return c.gone("ncclCommDestroy", C.psrt_nccl_destroy(c.lib.at, c.at()))
}

// Abort ends what is under way, here, and gives it back. It waits for what the card does,
// though Init and other calls return at once: for a card that hangs, for ever.
func (c *Comm) Abort() error { return c.gone("ncclCommAbort", C.psrt_nccl_abort(c.lib.at, c.at())) }

// gone is how giving it back went; its words are not asked for, as it may be no more.
func (c *Comm) gone(call string, r C.int32_t) error {
	c.forget()
	return c.failed(call, r)
}

// Registration is memory that the library knows.
type Registration struct {
	c  *Comm
	at unsafe.Pointer
}

// Register tells the library of memory of the device that calls will use. A call's memory is
// registered at all ranks, source and destination, or nowhere.
func (c *Comm) Register(at uint64, bytes int) (*Registration, error) {
	if !c.lib.Registers() {
		return nil, fmt.Errorf("%w: NCCL %s has no ncclCommRegister, which came with 2.19", ErrNotSupported, VersionText(c.lib.Version()))
	}
	r := &Registration{c: c}
	err := c.failed(fmt.Sprintf("ncclCommRegister of %d bytes", bytes), C.psrt_nccl_register(c.lib.at, c.at(), C.uint64_t(at), C.uint64_t(bytes), &r.at))
	return r, err
}

// Close ends it, before the communicator is given back.
func (r *Registration) Close() error {
	return r.c.failed("ncclCommDeregister", C.psrt_nccl_deregister(r.c.lib.at, r.c.at(), r.at))
}

// AllReduce combines count elements of all ranks, at all.
func (c *Comm) AllReduce(stream unsafe.Pointer, send, recv uint64, count int, t Type, op Op) error {
	return c.given("ncclAllReduce of %d elements", count,
		C.psrt_nccl_all_reduce(c.lib.at, c.at(), stream, C.uint64_t(send), C.uint64_t(recv), C.uint64_t(count), C.int32_t(t), C.int32_t(op)))
}

// ReduceScatter combines blocks of count elements, at each rank its own.
func (c *Comm) ReduceScatter(stream unsafe.Pointer, send, recv uint64, count int, t Type, op Op) error {
	return c.given("ncclReduceScatter of %d elements", count,
		C.psrt_nccl_reduce_scatter(c.lib.at, c.at(), stream, C.uint64_t(send), C.uint64_t(recv), C.uint64_t(count), C.int32_t(t), C.int32_t(op)))
}

// AllGather collects blocks of count elements, at all ranks those of all.
func (c *Comm) AllGather(stream unsafe.Pointer, send, recv uint64, count int, t Type) error {
	return c.given("ncclAllGather of %d elements", count,
		C.psrt_nccl_all_gather(c.lib.at, c.at(), stream, C.uint64_t(send), C.uint64_t(recv), C.uint64_t(count), C.int32_t(t)))
}

// Broadcast has what is at root be at all.
func (c *Comm) Broadcast(stream unsafe.Pointer, at uint64, count int, t Type, root int) error {
	return c.given("ncclBroadcast of %d elements", count,
		C.psrt_nccl_broadcast(c.lib.at, c.at(), stream, C.uint64_t(at), C.uint64_t(count), C.int32_t(t), C.int32_t(root)))
}

// Exchange sends to and receives from all ranks at once; there is a part of each.
func (c *Comm) Exchange(stream unsafe.Pointer, parts []Part, t Type) error {
	all := make([]C.psrt_nccl_part, len(parts))
	for i, p := range parts {
		all[i] = C.psrt_nccl_part{send: C.uint64_t(p.Send), sends: C.uint64_t(p.Sends), recv: C.uint64_t(p.Recv), recvs: C.uint64_t(p.Recvs)}
	}
	return c.given("ncclSend and ncclRecv among %d ranks", len(parts),
		C.psrt_nccl_exchange(c.lib.at, c.at(), stream, unsafe.SliceData(all), C.int32_t(len(all)), C.int32_t(t)))
}

// AllReduces gives the stream as many all-reduces in a row from C, for comparison.
func (c *Comm) AllReduces(stream unsafe.Pointer, send, recv uint64, count int, t Type, op Op, times int) error {
	return c.given("%d times ncclAllReduce", times,
		C.psrt_nccl_all_reduces(c.lib.at, c.at(), stream, C.uint64_t(send), C.uint64_t(recv), C.uint64_t(count), C.int32_t(t), C.int32_t(op), C.int32_t(times)))
}

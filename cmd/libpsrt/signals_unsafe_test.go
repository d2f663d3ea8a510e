//go:build cgo

package main

import (
	"testing"
	"unsafe"
)

//go:noinline
func stackAddress() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here))
}

//go:noinline
func stackAddressBelowRoom() uintptr {
	makeRoom()
	return stackAddress()
}

// makeRoom is inlined: the room is in the frame of the function that calls it.
func TestRoomIsInTheCallersFrame(t *testing.T) {
	stackAddressBelowRoom() // grows the stack, which moves it
	if above, below := stackAddress(), stackAddressBelowRoom(); above-below < unsafe.Sizeof(room{}) {
		t.Errorf("the frame has %d bytes, want %d at least", above-below, unsafe.Sizeof(room{}))
	}
}

package uring

import "unsafe"

type sizeCheck struct {
	name      string
	got, want uintptr
}

// sizes compares structs with include/uapi/linux/io_uring.h.
func sizes() []sizeCheck {
	var p params
	var e Entry
	return []sizeCheck{
		{"Entry", unsafe.Sizeof(e), entryBytes},
		{"Entry before Buffer", unsafe.Offsetof(e.Buffer), 40},
		{"Completion", unsafe.Sizeof(Completion{}), completionBytes},
		{"params", unsafe.Sizeof(p), 120},
		{"params before sq", unsafe.Offsetof(p.sq), 40},
		{"params before cq", unsafe.Offsetof(p.cq), 80},
		{"rsrcRegister", unsafe.Sizeof(rsrcRegister{}), 32},
		{"rsrcUpdate", unsafe.Sizeof(rsrcUpdate{}), 32},
		{"filesUpdate", unsafe.Sizeof(filesUpdate{}), 16},
		{"getEventsArg", unsafe.Sizeof(getEventsArg{}), 24},
		{"probe", unsafe.Sizeof(probe{}), 16 + 256*8},
	}
}

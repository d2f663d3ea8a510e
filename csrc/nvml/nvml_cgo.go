//go:build cgo

package nvml

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl -lpthread
// #include "nvml.h"
// #include <stdlib.h>
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"unsafe"
)

// Library is the loaded library.
type Library struct{}

// Load loads it: path, else what Variable names, else Name.
func Load(path string) (*Library, error) {
	file := C.CString(cmp.Or(path, os.Getenv(Variable), Name))
	defer C.free(unsafe.Pointer(file))
	var why [512]C.char
	if C.psrt_nvml_load(file, &why[0], C.size_t(len(why))) != 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotSupported, C.GoString(&why[0]))
	}
	return &Library{}, nil
}

func failed(what string, result C.int32_t) error {
	if result == 0 {
		return nil
	}
	return fmt.Errorf("nvml: %s: %s (%d)", what, C.GoString(C.psrt_nvml_text(result)), int(result))
}

// Links is how many NVLinks a card, by its PCI address, has, and how many of them are up.
func (*Library) Links(bus string) (up, all int, err error) {
	b := C.CString(bus)
	defer C.free(unsafe.Pointer(b))
	var u, a C.int32_t
	err = failed("NVLinks of "+bus, C.psrt_nvml_links(b, &u, &a))
	return int(u), int(a), err
}

// Between is what two cards have between them.
func (*Library) Between(one, other string) (Way, error) {
	a, b := C.CString(one), C.CString(other)
	defer C.free(unsafe.Pointer(a))
	defer C.free(unsafe.Pointer(b))
	var link, peer C.int32_t
	err := failed("from "+one+" to "+other, C.psrt_nvml_between(a, b, &link, &peer))
	return Way{NVLink: link != 0, Peer: peer != 0}, err
}

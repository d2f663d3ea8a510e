package cuda

import (
	_ "embed" // the header
	"errors"
	"fmt"
	"regexp"
)

// Library is what Load loads where it is given no other.
const Library = "libcuda.so.1"

// Variable of the environment names another file, where the driver's is not found.
const Variable = "PSRT_CUDA_LIBRARY"

//go:embed driver.h
var header string

// Symbols are the functions without which Load refuses a library.
func Symbols() (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^\tF\(\w+, (cu\w+), `).FindAllStringSubmatch(header, -1) {
		names = append(names, m[1])
	}
	return names
}

// ErrNotSupported: no driver can be loaded here.
var ErrNotSupported = errors.New("cuda: not supported on this machine")

// Result is what the driver answers; 0 is success.
type Result int32

// Results that callers tell apart.
const (
	InvalidValue Result = 1
	OutOfMemory  Result = 2
	NoDevice     Result = 100
)

// Error is a call that the driver refused.
type Error struct {
	Call   string
	Result Result
	Text   string
}

func (e *Error) Error() string { return fmt.Sprintf("cuda: %s: %s", e.Call, e.Text) }

// IsOutOfMemory says whether a device, or the host, had too little memory.
func IsOutOfMemory(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Result == OutOfMemory
}

// IsInvalidValue says whether an argument made no sense to the driver.
func IsInvalidValue(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Result == InvalidValue
}

// Info is what a device is.
type Info struct {
	Index        int
	Name, Bus    string // Bus: its PCI address, such as 0000:17:00.0
	Bytes        int64
	Major, Minor int // compute capability
}

// Ptr is an address on a device, 0 is none.
type Ptr uint64

// Add is the address n bytes behind p.
func (p Ptr) Add(n int) Ptr { return p + Ptr(n) }

// Kernels are what Accelerator runs: PTX text, the names in it by their numbers, how many
// threads do a row, and how many are a block.
type Kernels struct {
	Text                string
	Names               []string
	Lanes, BlockThreads int
}

// maxBlocks bounds a launch in the one dimension that is used.
const maxBlocks = 1<<31 - 1

package nccl

import (
	_ "embed" // the header
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Name is what Load loads where it is given no other.
const Name = "libnccl.so.2"

// Variable of the environment names another file, where the library's is not found.
const Variable = "PSRT_NCCL_LIBRARY"

// Remedy is what to do where there is none.
const Remedy = "install NVIDIA's libnccl2, or have " + Variable + " name a file, such as nvidia/nccl/lib/" + Name + " of PyTorch's packages in Python's site-packages"

//go:embed library.h
var header string

// Symbols are the functions without which Load refuses a library.
func Symbols() (names []string) {
	required, _, _ := strings.Cut(header, "#define PSRT_NCCL_OPTIONAL")
	for _, m := range regexp.MustCompile(`(?m)^\tF\(\w+, "(nccl\w+)"`).FindAllStringSubmatch(required, -1) {
		names = append(names, m[1])
	}
	return append(names, "ncclGetErrorString")
}

// ErrNotSupported: no NCCL can be loaded here.
var ErrNotSupported = errors.New("nccl: not supported on this machine")

// ID is what the ranks of a communicator find each other by; one of them makes it.
type ID [128]byte

// Result is what the library answers.
type Result int32

// Results that callers tell apart; the numbers are NCCL's.
const (
	Success         Result = 0
	CUDAError       Result = 1
	SystemError     Result = 2
	InternalError   Result = 3
	InvalidArgument Result = 4
	InvalidUsage    Result = 5
	RemoteError     Result = 6
	InProgress      Result = 7
)

// remedy is what to do about one.
func (r Result) remedy() string {
	switch r {
	case CUDAError, SystemError, InternalError:
		return "NCCL_DEBUG=WARN has the library say more"
	case InvalidUsage:
		return "is a card used by two ranks, or are libraries of several versions at work? NCCL_DEBUG=WARN has the library say more"
	case RemoteError:
		return "another rank has ended, or its link has: look at its log"
	}
	return ""
}

// Error is a call that failed, at once or later.
type Error struct {
	Call   string
	Rank   int // who made it, -1 where there is no communicator
	Result Result
	Text   string
}

func (e *Error) Error() string {
	s := "nccl: "
	if e.Rank >= 0 {
		s += fmt.Sprintf("rank %d: ", e.Rank)
	}
	s += e.Call + ": " + e.Text
	if r := e.Result.remedy(); r != "" {
		s += "; " + r
	}
	return s
}

// Type of elements; the numbers are NCCL's.
type Type int32

// The types.
const (
	I8 Type = iota
	U8
	I32
	U32
	I64
	U64
	F16
	F32
	F64
	BF16
)

// Op combines elements; the numbers are NCCL's.
type Op int32

// The operations.
const (
	Sum Op = iota
	Prod
	Max
	Min
)

// Part of an exchange is what is sent to a rank, and received from it: addresses on the
// device, and elements.
type Part struct {
	Send, Sends uint64
	Recv, Recvs uint64
}

// VersionText is a version as NCCL writes it.
func VersionText(code int) string {
	if code < 10000 {
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}

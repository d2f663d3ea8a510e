package nvml

import "errors"

// Name is what Load loads where Variable names no other file.
const (
	Name     = "libnvidia-ml.so.1"
	Variable = "PSRT_NVML_LIBRARY"
)

// ErrNotSupported: the library cannot be loaded here, or will not begin.
var ErrNotSupported = errors.New("nvml: not supported on this machine")

// Way is how two cards reach each other's memory; NVLink where both.
type Way struct{ NVLink, Peer bool }

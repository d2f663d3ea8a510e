package wire

import (
	"encoding/json"
	"fmt"
)

// Config is what the guest finds in its first file system: how it is to set
// itself up.
type Config struct {
	Modules []Module `json:"modules"` // in the order in which they are loaded
	Shares  []Share  `json:"shares"`  // writable folders of the host
	Probe   bool     `json:"probe"`   // say that the kernel runs, then power off
}

// Module is a kernel module in the first file system.
type Module struct {
	File     string `json:"file"`
	Optional bool   `json:"optional"` // a processor without its instructions refuses it
}

// Share is a folder of the host, mounted at its own path.
type Share struct {
	Tag  string `json:"tag"` // of the 9p device
	Path string `json:"path"`
}

// Hello is the agent's first message.
type Hello struct {
	Kernel  string   `json:"kernel"`
	Devices []string `json:"devices"` // RDMA devices that are ready
	Error   string   `json:"error"`   // not empty: the machine is of no use
}

// Command is one to run.
type Command struct {
	Args []string `json:"args"` // the program, then its arguments
	Dir  string   `json:"dir"`
	Env  []string `json:"env"` // all of it
}

// Exit is how a command ended.
type Exit struct {
	Code  int    `json:"code"`  // 128 + the signal's number if one ended it, as shells have it
	Error string `json:"error"` // not empty: it could not be started
}

// Traffic is what was counted since the devices were there.
type Traffic struct {
	DevicePackets int64 `json:"device_packets"` // sent, by the RDMA devices' own count
	LinkPackets   int64 `json:"link_packets"`   // that crossed the veth pair, both ways
}

// Decode reads a message.
func Decode(payload []byte, into any) error {
	if err := json.Unmarshal(payload, into); err != nil {
		return fmt.Errorf("lab: a message that is not the %T expected: %w", into, err)
	}
	return nil
}

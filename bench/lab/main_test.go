package lab

import (
	"fmt"
	"os"
	"testing"
	"time"

	"psrt/bench/lab/guest"
	"psrt/bench/lab/wire"
)

// fakeEmulator is a variable that makes this test program an emulator: it then
// is the guest's side itself, without a machine around it.
const fakeEmulator = "PSRT_LAB_FAKE_EMULATOR"

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeEmulator); how != "" {
		if err := emulate(how); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func emulate(how string) error {
	os.Unsetenv(fakeEmulator)
	switch how {
	case "mute":
		time.Sleep(10 * time.Minute)
		return nil
	case "dies":
		return fmt.Errorf("[    0.000001] VFS: Unable to mount root fs")
	case "faulty":
		fmt.Print("[    7.000001] BUG: kernel NULL pointer dereference, address: 0000000000000008\r\n[    7.000002] RIP: 0010:rxe_completer+0x21/0xd30 [rdma_rxe]\r\n")
	}
	port := os.NewFile(portFD, "port")
	w := wire.NewWriter(port)
	hello := wire.Hello{Kernel: "0.0-fake", Devices: []string{"rxe0", "rxe1"}}
	if how == "unfit" {
		hello.Error = "rxe0 has no GID"
	}
	if err := w.WriteJSON(wire.KindHello, hello); err != nil {
		return err
	}
	if how == "hangs" {
		time.Sleep(10 * time.Minute)
	}
	return guest.Serve(port, w, func() wire.Traffic { return wire.Traffic{DevicePackets: 5, LinkPackets: 6} })
}

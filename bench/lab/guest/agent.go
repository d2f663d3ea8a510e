package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/pair"
	"psrt/bench/lab/wire"
)

// setupTimeout bounds the making of the pair.
const setupTimeout = 3 * time.Minute

// Agent prepares the machine, greets the host and serves it until it quits.
func Agent() error {
	port, err := openPort()
	if err != nil {
		return err
	}
	defer port.Close()
	w := wire.NewWriter(port)
	hello := wire.Hello{Kernel: release()}
	hello.Devices, err = prepare()
	if err != nil {
		hello.Error = err.Error()
	}
	if err := w.WriteJSON(wire.KindHello, hello); err != nil {
		return fmt.Errorf("greeting the host: %w", err)
	}
	return Serve(port, w, bye)
}

func prepare() ([]string, error) {
	if err := unix.Sethostname([]byte("lab")); err != nil {
		return nil, err
	}
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil {
		return nil, fmt.Errorf("lifting the limit on locked memory: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if err := loopback(); err != nil {
		return nil, err
	}
	if _, err := pair.Up(ctx); err != nil {
		return nil, err
	}
	if err := pair.Cross(); err != nil {
		return nil, err
	}
	return pair.Devices("/sys")
}

// loopback sets the interface lo up.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("setting lo up: %w", err)
	}
	return nil
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func bye() wire.Traffic {
	t, err := pair.Count()
	if err != nil {
		return wire.Traffic{} // a command took the devices away
	}
	return wire.Traffic{DevicePackets: t.Device, LinkPackets: t.Link}
}

// Serve runs one command at a time for whoever is at the other end of r, until
// KindQuit or the stream's end. At KindQuit it sends what bye returns.
func Serve(r io.Reader, w *wire.Writer, bye func() wire.Traffic) error {
	var running *process
	ended := make(chan struct{})
	frames := make(chan frame)
	stop := make(chan struct{})
	defer close(stop)
	go readFrames(r, frames, stop)
	for {
		select {
		case <-ended:
			running = nil
		case f := <-frames:
			switch {
			case f.err != nil:
				running.kill()
				if errors.Is(f.err, io.EOF) {
					return nil
				}
				return f.err
			case f.kind == wire.KindQuit:
				running.kill()
				return w.WriteJSON(wire.KindBye, bye())
			case f.kind == wire.KindSignal && len(f.payload) == 1:
				running.signal(unix.Signal(f.payload[0]))
			case f.kind == wire.KindRun && running == nil:
				var command wire.Command
				if err := wire.Decode(f.payload, &command); err != nil {
					return err
				}
				p, err := start(command, w)
				if err != nil {
					if err := w.WriteJSON(wire.KindExit, wire.Exit{Code: 127, Error: err.Error()}); err != nil {
						return err
					}
					continue
				}
				running = p
				go func() {
					exit := p.wait()
					select {
					case ended <- struct{}{}: // first: the host may ask for the next at once
						_ = w.WriteJSON(wire.KindExit, exit) // a host that is gone shows at the next read
					case <-stop:
					}
				}()
			default:
				return fmt.Errorf("lab: a frame of kind %q with %d bytes, unexpected now", f.kind, len(f.payload))
			}
		}
	}
}

type frame struct {
	kind    wire.Kind
	payload []byte
	err     error
}

func readFrames(r io.Reader, frames chan<- frame, stop <-chan struct{}) {
	for {
		kind, payload, err := wire.Read(r)
		select {
		case frames <- frame{kind, payload, err}:
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

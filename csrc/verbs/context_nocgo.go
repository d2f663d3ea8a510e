//go:build !cgo

package verbs

import "fmt"

// Without cgo there is nothing to load: Load says so, no Context ever exists,
// and the methods below are there for callers to compile.

func unavailable() error { return fmt.Errorf("%w: this program was built without cgo", ErrUnavailable) }

func Load() error                   { return unavailable() }
func Devices() ([]string, error)    { return nil, unavailable() }
func Open(string) (*Context, error) { return nil, unavailable() }

// Access of a registration.
const (
	AccessRemoteRead = 1 << iota
	AccessRemoteWrite
	AccessRemoteAtomic
	AccessOnDemand
)

type Context struct{}

func (*Context) Close() error                                { return unavailable() }
func (*Context) Attr() (DeviceAttr, error)                   { return DeviceAttr{}, unavailable() }
func (*Context) Port(int) (PortAttr, error)                  { return PortAttr{}, unavailable() }
func (*Context) GID(int, int) (GID, error)                   { return GID{}, unavailable() }
func (*Context) GIDs(int) ([]GID, error)                     { return nil, unavailable() }
func (*Context) AsyncEvent() (Event, bool, error)            { return Event{}, false, unavailable() }
func (*Context) Register(uint64, uint64, int) (MR, error)    { return MR{}, unavailable() }
func (*Context) NewCQ(int) (*CQ, error)                      { return nil, unavailable() }
func (*Context) NewSRQ(int) (*SRQ, error)                    { return nil, unavailable() }
func (*Context) NewQP(*CQ, *SRQ, int, int, int) (*QP, error) { return nil, unavailable() }
func (*Context) RegisterDMABuf(int, uint64, uint64, uint64, int) (MR, error) {
	return MR{}, unavailable()
}

func HasDMABuf() bool { return false }

type SRQ struct{}

func (*SRQ) Close() error                  { return unavailable() }
func (*SRQ) Post(uint64, int) (int, error) { return 0, unavailable() }

type MR struct{ LKey, RKey uint32 }

func (MR) Close() error { return unavailable() }

func StatusText(status uint32) string { return fmt.Sprintf("status %d", status) }

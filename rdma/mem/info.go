package mem

import "fmt"

// PageKind is what an arena is made of.
type PageKind uint8

const (
	SmallPages       PageKind = iota // 4 KiB (the machine's page)
	TransparentPages                 // 2 MiB where the kernel finds them, advised
	HugePages                        // 2 MiB from the kernel's pool
)

func (k PageKind) String() string {
	switch k {
	case HugePages:
		return "2 MiB huge pages"
	case TransparentPages:
		return "transparent huge pages"
	}
	return "4 KiB pages"
}

// Info tells what an arena got and why not more.
type Info struct {
	Purpose   string
	Bytes     int // mapped, Size rounded up to pages
	Shared    bool
	Pages     PageKind
	PagesWhy  string
	Node      int // -1: anywhere
	NodeWhy   string
	Locked    bool
	LockedWhy string
}

func (i Info) String() string {
	locked := "not locked"
	if i.Locked {
		locked = "locked"
	}
	return fmt.Sprintf("%s: %s, %s (%s); node %d (%s); %s (%s)",
		i.Purpose, bytesText(int64(i.Bytes)), i.Pages, i.PagesWhy, i.Node, i.NodeWhy, locked, i.LockedWhy)
}

// bytesText writes a size as people read it.
func bytesText(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.bytes {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

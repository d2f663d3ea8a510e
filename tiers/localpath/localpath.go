package localpath

import "fmt"

// Scheme is the scheme of an address such as s3://bucket/prefix, "" for a path.
func Scheme(name string) string {
	for i := range len(name) {
		c := name[i]
		switch letter := c|0x20 >= 'a' && c|0x20 <= 'z'; {
		case letter, i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':' && i > 0 && len(name) >= i+3 && name[i:i+3] == "://":
			return name[:i]
		default:
			return ""
		}
	}
	return ""
}

// Error is an address where a path of this machine is needed.
type Error struct{ Name, Scheme string }

func (e *Error) Error() string {
	return fmt.Sprintf("%s: a path of this machine is needed here, not %s://; use a directory or file and copy it from or to there (a local path of this name is ./%s)", e.Name, e.Scheme, e.Name)
}

// BadInput: the user chose the name.
func (e *Error) BadInput() bool { return true }

// Check refuses an address.
func Check(name string) error {
	if s := Scheme(name); s != "" {
		return &Error{name, s}
	}
	return nil
}

//go:build !cgo

package rule

import (
	"errors"
	"testing"
)

func TestWithoutCgo(t *testing.T) {
	if _, err := Try("./x.so", "", 4); !errors.Is(err, ErrNotSupported) {
		t.Errorf("error %v, want ErrNotSupported", err)
	}
}

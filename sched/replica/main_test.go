package replica

import (
	"os"
	"testing"

	"psrt/rdma/invariant"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

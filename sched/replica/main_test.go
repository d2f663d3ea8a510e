package replica

import (
	"fmt"
	"os"
	"testing"

	"psrt/rdma/invariant"
)

// childEnv says that this process is a server of a test's job, and not the test.
const childEnv = "PSRT_REPLICA_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := child(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(invariant.Main(m))
}

package train

import "testing"

// Without --groups there are some for each lane, but no more than the workers' queue
// pairs allow, and one for each server.
func TestSettleChains(t *testing.T) {
	for _, c := range []struct{ servers, lanes, workers, replicas, groups, want int }{
		{3, 1, 2, 2, 0, 12},
		{8, 4, 64, 2, 0, 128},
		{8, 16, 64, 2, 0, 256},    // of 512
		{8, 4, 4096, 2, 0, 8},     // more queue pairs than are wanted, but every server serves
		{8, 4, 4096, 2, 100, 100}, // as said
		{3, 1, 2, 1, 0, 0},
		{64, 64, 1, 3, 0, 4096},
	} {
		j := Job{Servers: c.servers, Lanes: c.lanes, Workers: c.workers, Replicas: c.replicas, Groups: c.groups}
		if j.SettleChains(); j.Groups != c.want {
			t.Errorf("%+v: %d groups", c, j.Groups)
		}
	}
}

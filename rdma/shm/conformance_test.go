package shm_test

import (
	"testing"

	"psrt/rdma"
	"psrt/rdma/rdmatest"
	"psrt/rdma/shm"
)

func vanish(t testing.TB, d rdma.Domain) {
	if err := shm.Vanish(d); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	rdmatest.Run(t, rdmatest.Factory{Kill: vanish, New: func(t testing.TB) (a, b rdma.Domain) {
		var ds [2]rdma.Domain
		for i := range ds {
			d, err := shm.New(shm.Config{})
			if err != nil {
				t.Fatal(err)
			}
			ds[i] = d
		}
		return ds[0], ds[1]
	}})
}

package kv

import "psrt/rdma/mem"

func floats(m *Memory) []float32 { return mem.Float32s(m.Bytes()) }

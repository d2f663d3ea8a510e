package export

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/export/quant"
)

// tensors reads a file as the format's description says, with nothing of ours.
func tensors(t *testing.T, path string) map[string][]float64 {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	n := binary.LittleEndian.Uint64(b)
	var header map[string]json.RawMessage
	check(t, json.Unmarshal(b[8:8+n], &header))
	data := b[8+n:]
	out := map[string][]float64{}
	for name, raw := range header {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Dtype string
			Shape []int
			At    []int `json:"data_offsets"`
		}
		check(t, json.Unmarshal(raw, &e))
		size := map[string]int{"U64": 8, "F32": 4, "F16": 2, "I8": 1}[e.Dtype]
		for p := data[e.At[0]:e.At[1]]; len(p) > 0; p = p[size:] {
			var v float64
			switch e.Dtype {
			case "U64":
				v = math.Float64frombits(binary.LittleEndian.Uint64(p)) // bits: a float64 has no room for a key
			case "F32":
				v = float64(math.Float32frombits(binary.LittleEndian.Uint32(p)))
			case "F16":
				h := binary.LittleEndian.Uint16(p)
				v = math.Ldexp(float64(h&0x3ff)+1024, int(h>>10&31)-25)
				if h>>10&31 == 0 {
					v = math.Ldexp(float64(h&0x3ff), -24)
				}
				if h>>15 == 1 {
					v = -v
				}
			case "I8":
				v = float64(int8(p[0]))
			}
			out[name] = append(out[name], v)
		}
	}
	return out
}

func TestTensors(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 500)
	m := w.save(t, 2, false)
	for _, e := range []quant.Encoding{quant.F32, quant.F16, quant.I8} {
		dir := filepath.Join(t.TempDir(), "out")
		_, err := Write(context.Background(), m, dir, Options{Kind: Safetensors, Quantize: e, State: true,
			Views: map[uint32][]View{5: {{"a", 0, 2, 2}, {"b", 4, 1, 1}}}})
		check(t, err)
		got := tensors(t, filepath.Join(dir, "table-1.safetensors"))
		var keys []uint64
		for key := range w.rows[1] {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if len(got["keys"]) != len(keys) || len(got["state"]) != 5*len(keys) {
			t.Fatalf("%v: %d keys and %d numbers of state for %d rows", e, len(got["keys"]), len(got["state"]), len(keys))
		}
		for i, key := range keys {
			row := w.rows[1][key]
			largest := 0.0
			for _, x := range row[1:5] {
				largest = max(largest, math.Abs(float64(x)))
			}
			for j, want := range row {
				v, limit := 0.0, 0.0
				switch {
				case j >= 5:
					v = got["state"][5*i+j-5]
				case e == quant.I8 && j == 0:
					v = got["exact"][i]
				case e == quant.I8:
					v, limit = got["weights"][4*i+j-1]*got["scale"][i], largest/250
				default:
					v = got["weights"][5*i+j]
					if e == quant.F16 {
						limit = math.Abs(float64(want))/2000 + 1e-7
					}
				}
				if math.Float64bits(got["keys"][i]) != key || math.Abs(v-float64(want)) > limit {
					t.Fatalf("%v: float %d of key %d is %v, want %v", e, j, key, v, want)
				}
			}
		}
		dense := tensors(t, filepath.Join(dir, "mlp.safetensors"))
		if a, b := dense["a"], dense["b"]; len(a) != 4 || len(b) != 1 || float32(a[3]) != w.values[3] || float32(b[0]) != w.values[4] || len(dense["state.1"]) != 2 {
			t.Errorf("dense tensors %v", dense)
		}
	}
}

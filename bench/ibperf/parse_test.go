package ibperf

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for file, want := range map[string]Result{
		"ib_write_lat.txt": {Bytes: 64, Iterations: 200, Min: 20.53, Typical: 21.13, Avg: 24.97, P99: 329.21},
		"ib_write_bw.txt":  {Bytes: 64, Iterations: 200, Peak: 0.012117 / 8, Average: 0.009741 / 8, Rate: 0.019026},
		"ib_read_bw.txt":   {Bytes: 64, Iterations: 200, Peak: 0.013049 / 8, Average: 0.008367 / 8, Rate: 0.016341},
	} {
		f, err := os.Open("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(f)
		f.Close()
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", file, got, err, want)
		}
	}
}

func TestParseBad(t *testing.T) {
	const heading = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	for name, out := range map[string]string{
		"empty":        "",
		"no figures":   heading,
		"a warning":    heading + "Conflicting CPU frequency values\n",
		"other units":  " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n 64 200 1 2 3\n",
		"no numbers":   heading + " 64 200 a b c\n",
		"cut heading":  " #bytes\n64 200 1 2 3\n",
		"bytes is NaN": heading + " x 200 1 2 3\n",
	} {
		if r, err := parse(strings.NewReader(out)); !errors.Is(err, ErrOutput) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

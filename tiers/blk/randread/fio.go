package randread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// ErrNoFio says that fio is not installed.
var ErrNoFio = errors.New("randread: fio is not installed; apt-get install fio")

// Fio has fio read random blocks of the file at path, with io_uring, O_DIRECT,
// registered files and buffers where fio offers them, for about the given time.
func Fio(ctx context.Context, path string, cfg Config, d time.Duration) (Result, error) {
	fio, err := exec.LookPath("fio")
	if err != nil {
		return Result{}, ErrNoFio
	}
	// A seed of its own: the same places as ours would find the disk's caches warm.
	out, err := exec.CommandContext(ctx, fio, "--name=randread", "--filename="+path, "--readonly", "--rw=randread",
		"--bs="+strconv.Itoa(cfg.Bytes), "--iodepth="+strconv.Itoa(cfg.Depth),
		"--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1",
		"--iodepth_batch_submit="+strconv.Itoa(batch(cfg)), "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max="+strconv.Itoa(cfg.Depth),
		"--norandommap", "--randrepeat=0", "--randseed="+strconv.FormatUint(cfg.Seed>>1+1, 10), "--time_based", "--runtime="+strconv.FormatInt(d.Milliseconds(), 10)+"ms",
		"--gtod_reduce=1", "--output-format=json").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %.300s", err, exit.Stderr)
		}
		return Result{}, fmt.Errorf("randread: fio on %s: %w", path, err)
	}
	return parseFio(out)
}

func batch(cfg Config) int {
	if cfg.Batch > 0 {
		return cfg.Batch
	}
	return max(1, cfg.Depth/4)
}

// parseFio reads fio's report.
func parseFio(out []byte) (Result, error) {
	var report struct {
		Jobs []struct {
			Error int `json:"error"`
			Read  struct {
				TotalIOs int `json:"total_ios"`
				Runtime  int `json:"runtime"` // ms
			} `json:"read"`
			UserCPU   float64 `json:"usr_cpu"` // percent
			SystemCPU float64 `json:"sys_cpu"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return Result{}, fmt.Errorf("randread: fio's report: %w", err)
	}
	if len(report.Jobs) != 1 || report.Jobs[0].Error != 0 || report.Jobs[0].Read.TotalIOs == 0 || report.Jobs[0].Read.Runtime == 0 {
		return Result{}, fmt.Errorf("randread: fio's report tells of no reads or an error: %.300s", out)
	}
	j := report.Jobs[0]
	elapsed := time.Duration(j.Read.Runtime) * time.Millisecond
	return Result{Reads: j.Read.TotalIOs, Elapsed: elapsed,
		CPU: time.Duration((j.UserCPU + j.SystemCPU) / 100 * float64(elapsed))}, nil
}

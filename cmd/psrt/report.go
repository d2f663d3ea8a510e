package main

import (
	"errors"
	"os"
	"time"

	"psrt/bench/trainreport"
	"psrt/cmd/internal/cli"
	"psrt/sched/train"
)

func writeReport(path string, res *train.Result, j *train.Job) error {
	f, err := os.Create(path)
	if err != nil {
		return cli.Usagef("--report: %w", err)
	}
	return errors.Join(trainreport.Write(f, trainreport.Page{Title: "psrt training report: " + res.Model, When: time.Now(), Result: res, Job: j}), f.Close())
}

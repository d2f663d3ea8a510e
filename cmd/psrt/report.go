package main

import (
	"errors"
	"os"
	"time"

	"psrt/bench/trainreport"
	"psrt/cmd/internal/cli"
	"psrt/sched/train"
)

func writeReport(path string, res *train.Result, j *train.Job, curve []train.Progress) error {
	f, err := os.Create(path)
	if err != nil {
		return cli.Usagef("--report: %w", err)
	}
	return errors.Join(trainreport.Write(f, trainreport.Page{Title: "psrt training report: " + res.Model, When: time.Now(), Result: res, Job: j, Curve: curve}), f.Close())
}

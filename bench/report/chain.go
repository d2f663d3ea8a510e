package report

// Chain is what a row says of servers with replicas. Gaps are the longest times
// without an answer.
type Chain struct {
	PullGapMillis    float64 `json:"pull_gap_ms,omitempty"`
	PushGapMillis    float64 `json:"push_gap_ms,omitempty"`
	DetectMillis     float64 `json:"detect_ms,omitempty"`  // until a map without the dead server
	JoinedMillis     float64 `json:"joined_ms,omitempty"`  // until its successor has begun to copy
	RecoverySeconds  float64 `json:"recovery_s,omitempty"` // until there are as many replicas again, or all have moved
	PredictedSeconds float64 `json:"predicted_s,omitempty"`
	PlannedSeconds   float64 `json:"planned_s,omitempty"`     // that psrt plan predicts, which knows the link alone
	CopyShare        float64 `json:"copy_share,omitempty"`    // of the link, that rows had
	PushShare        float64 `json:"push_share,omitempty"`    // and pushes meanwhile
	PlannedShare     float64 `json:"planned_share,omitempty"` // that psrt plan predicts for rows
	NormalP99        float64 `json:"pull_normal_p99_us,omitempty"`
	MovedShare       float64 `json:"moved_share,omitempty"` // of all replicas
}

var chainColumns = []column{
	{"pull gap[ms]", 1, chains(func(c *Chain) float64 { return c.PullGapMillis })},
	{"push gap[ms]", 1, chains(func(c *Chain) float64 { return c.PushGapMillis })},
	{"cut out[ms]", 0, chains(func(c *Chain) float64 { return c.DetectMillis })},
	{"joins[ms]", 0, chains(func(c *Chain) float64 { return c.JoinedMillis })},
	{"whole[s]", 2, chains(func(c *Chain) float64 { return c.RecoverySeconds })},
	{"predicted[s]", 2, chains(func(c *Chain) float64 { return c.PredictedSeconds })},
	{"planned[s]", 2, chains(func(c *Chain) float64 { return c.PlannedSeconds })},
	{"/planned", 2, chains(func(c *Chain) float64 { return c.ofPlanned() })},
	{"copy", 2, chains(func(c *Chain) float64 { return c.CopyShare })},
	{"push", 2, chains(func(c *Chain) float64 { return c.PushShare })},
	{"left", 2, chains(func(c *Chain) float64 { return c.PlannedShare })},
	{"moved", 3, chains(func(c *Chain) float64 { return c.MovedShare })},
}

// ofPlanned is the measured recovery over the planned one; 0 where there is none.
func (c *Chain) ofPlanned() float64 {
	if c.PlannedSeconds == 0 {
		return 0
	}
	return c.RecoverySeconds / c.PlannedSeconds
}

func chains(f func(*Chain) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.Chain == nil {
			return 0
		}
		return f(r.Chain)
	}
}

package tiers

// Reserve does nothing: a Tiered's index grows within its budget, beside frames
// that take what is left.
func (t *Tiered) Reserve(int) {}

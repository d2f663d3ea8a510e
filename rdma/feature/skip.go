package feature

import (
	"errors"
	"os"
)

// TB is the part of testing.TB that SkipUnless needs, named here so that
// production builds do not link the testing package.
type TB interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// SkipUnless skips the test if err, a Prober's answer, says that the machine
// lacks the feature, and fails it if the answer is could-not-tell. Inside the
// lab that promises the feature (PSRT_LAB equals the Test's Lab) a missing one
// fails too: there, a skip would hide that the lab is broken.
func SkipUnless(t TB, err error) {
	t.Helper()
	var no *MissingError
	switch {
	case err == nil:
	case errors.As(err, &no) && no.Test.Lab != "" && os.Getenv("PSRT_LAB") == no.Test.Lab:
		t.Fatal("the lab " + no.Test.Lab + " must offer this: " + err.Error())
	case errors.Is(err, ErrNotSupported):
		t.Skip(err.Error())
	default:
		t.Fatal(err.Error())
	}
}

package restorer

import (
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store/storetest"
)

// A full is named after a revision that was there before its stream began. One that holds less,
// such as that of a member that lagged behind, must not pass for the newest state.
func TestAFullThatHoldsLessThanItsNameSaysIsNotRestored(t *testing.T) {
	longer := func(m *storetest.Memory) {
		v := only(t, m, "Full-")
		m.Rename(v.Key, strings.Replace(v.Key, "-00000204-", "-00000900-", 1))
	}
	m := enginetest.Original(t)
	longer(m)
	res, err := restore(t, m, nil)
	var noWay *restoreplan.NoWayError
	if !errors.As(err, &noWay) || !strings.Contains(err.Error(), "204") {
		t.Errorf("got %+v, %v, want that there is no way, and why", res, err)
	}
	// With an older full the restore reports the loss, and goes on when that is accepted.
	m = enginetest.Original(t)
	older := content(t, m, only(t, m, "Full-"))
	name := enginetest.MustName("Full-00000000-00000900-1795165000.gz")
	enginetest.Put(t, m, enginetest.Key(name), older)
	var loss *restoreplan.LossError
	if res, err := restore(t, m, nil); !errors.As(err, &loss) || loss.End != 871 || loss.Newest != 900 {
		t.Errorf("got %+v, %v, want a LossError", res, err)
	}
	res, err = restore(t, m, func(q *Request) { q.From.AcceptLossTo = 871 })
	if err != nil || res.Restored.HashKV.Hash != enginetest.WantHash(t) || len(res.Damaged) != 1 {
		t.Errorf("with the loss accepted: %+v, %v", res, err)
	}
}

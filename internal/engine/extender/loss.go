package extender

import (
	"fmt"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/timeline"
)

// lost records what is known and cannot be restored. What is gone counts as damaged, unless the reason for it was recorded
// already; what belongs to another history is there, and nobody has read it.
func (x *run) lost(loss *restoreplan.LossError) {
	switch {
	case loss.Other != nil:
		x.report.PassedOver = beside(loss)
		x.q.Log.Error("something newer is not kept locked", "object", loss.Known, "reason", "it is of "+timeline.Title(*loss.Other)+", "+loss.Why)
	case len(x.report.Damaged) == 0:
		x.damaged(loss.Known, unreached(loss))
	}
}

// beside names what is newer and of another history.
func beside(loss *restoreplan.LossError) string {
	return fmt.Sprintf("%s of %s, %s, and goes to revision %d", loss.Known, timeline.Title(*loss.Other), loss.Why, loss.Newest)
}

// unreached says why what is known of the history itself is not restored.
func unreached(loss *restoreplan.LossError) string {
	text := "it cannot be restored"
	if loss.Why != "" {
		text += "; " + loss.Why
	}
	if loss.Missing != nil {
		text += ": missing " + loss.Missing.String()
	}
	return text
}

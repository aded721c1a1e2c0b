package task

import (
	"fmt"

	"druid.internal/druid/internal/schedule"
)

// Unreadable returns why the schedule of a task, which stands in field, cannot be used, or "".
func Unreadable(t *Task, field string) string {
	if t.Schedule == nil {
		return ""
	}
	if _, err := schedule.Parse(*t.Schedule); err != nil {
		return fmt.Sprintf("%s: %v", field, err)
	}
	return ""
}

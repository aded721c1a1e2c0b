package memberconf

import "fmt"

// AutoCompaction is which history etcd forgets by itself: "periodic" with a duration or a number
// of hours, or "revision" with a number; the value "0" means none.
func (t *Template) AutoCompaction() (mode, retention string) {
	mode, retention = "periodic", "0"
	if m, given := t.values["auto-compaction-mode"]; given {
		mode = fmt.Sprint(m)
	}
	if r, given := t.values["auto-compaction-retention"]; given {
		retention = fmt.Sprint(r)
	}
	return mode, retention
}

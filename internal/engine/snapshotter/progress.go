package snapshotter

import (
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// Progress is how far a full is.
type Progress struct {
	Name  snapshot.Name
	Read  int64 // bytes of etcd's database so far
	Total int64 // how many it has, by what etcd said before; 0: unknown. It may grow meanwhile.
	Over  bool  // nothing more follows about this one, whether it succeeded or not
}

// meter counts what is read of etcd's stream.
type meter struct {
	r    io.Reader
	now  Progress
	tell func(Progress) // nil: nobody asks
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.now.Read += int64(n)
	m.report()
	return n, err
}

// over tells the end. Nobody may read any more.
func (m *meter) over() {
	m.now.Over = true
	m.report()
}

func (m *meter) report() {
	if m.tell == nil {
		return
	}
	if m.now.Total > 0 {
		m.now.Total = max(m.now.Total, m.now.Read)
	}
	m.tell(m.now)
}

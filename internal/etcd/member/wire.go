package member

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// wire reads and writes etcd's messages with the code that was generated for them, without the
// detour by reflection that gRPC makes for messages of their kind: of a watch, that is as much work
// again.
type wire struct{}

// Name is gRPC's for this encoding.
func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T is no message of etcd", v)
	}
	b, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal copies what it keeps of data.
func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(interface {
		Reset()
		Unmarshal([]byte) error
	})
	if !ok {
		return fmt.Errorf("%T is no message of etcd", v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	m.Reset()
	return m.Unmarshal(whole.ReadOnlyData())
}

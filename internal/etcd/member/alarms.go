package member

import (
	"context"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// AlarmKind is what an alarm is about, in etcd's words.
type AlarmKind string

// The alarms there are.
const (
	AlarmNoSpace AlarmKind = "NOSPACE" // a database reached its quota: the cluster refuses to grow
	AlarmCorrupt AlarmKind = "CORRUPT" // a member holds other data than the others: the cluster refuses everything
)

// Alarm is raised for a member and stays until it is disarmed.
type Alarm struct {
	MemberID uint64
	Kind     AlarmKind
}

func (a Alarm) String() string { return fmt.Sprintf("%s of member %x", a.Kind, a.MemberID) }

// Alarms lists the alarms of the cluster. Every call costs an entry in the log of all members;
// for frequent questions there is [Status.Alarmed].
func (c *Cluster) Alarms(ctx context.Context) ([]Alarm, error) {
	var alarms []Alarm
	err := c.ask(ctx, "list etcd's alarms", func(ctx context.Context, m *Member, _ Status) error {
		r, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
		if err != nil {
			return explain("list etcd's alarms", m.endpoint, err)
		}
		alarms = nil
		for _, a := range r.Alarms {
			alarms = append(alarms, Alarm{a.MemberID, AlarmKind(a.Alarm.String())})
		}
		return nil
	})
	return alarms, err
}

// Disarm ends an alarm; it is done already if there is none. etcd raises NOSPACE again with the
// next write that finds no room. CORRUPT is raised for member 0 when no majority agrees.
func (c *Cluster) Disarm(ctx context.Context, a Alarm) error {
	kind := pb.AlarmType(pb.AlarmType_value[string(a.Kind)]) // NONE for one that is not known
	if kind == pb.AlarmType_NONE {
		return fmt.Errorf("disarm etcd's alarm %s: name one kind", a)
	}
	return c.ask(ctx, "disarm etcd's alarm", func(ctx context.Context, m *Member, _ Status) error {
		_, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: kind,
		})
		return explain("disarm etcd's alarm "+a.String(), m.endpoint, err)
	})
}

// Alarms are the kinds of alarm that the member knows of, its own or others', each once.
func (s Status) Alarms() []AlarmKind {
	var all []AlarmKind
	for _, kind := range []AlarmKind{AlarmNoSpace, AlarmCorrupt} {
		if s.Alarmed(kind) {
			all = append(all, kind)
		}
	}
	return all
}

// Alarmed says whether the member knows of an alarm of this kind, its own or another's.
func (s Status) Alarmed(kind AlarmKind) bool {
	for _, e := range s.Errors {
		for _, word := range strings.Fields(e) {
			if word == "alarm:"+string(kind) {
				return true
			}
		}
	}
	return false
}

package datadir

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/raft/v3/raftpb"
)

// memberEntry is an entry of the log about the members: one comes, goes, or has another role or address,
// or tells its name and its addresses for clients.
type memberEntry struct {
	index  uint64
	kind   raftpb.ConfChangeType // of a member that comes or goes
	member Member
	named  bool // only Name and ClientURLs of the member count
}

// memberChange reads the entry of a change of the membership.
func memberChange(index uint64, data []byte) (memberEntry, bool) {
	var c raftpb.ConfChange
	if c.Unmarshal(data) != nil || c.NodeID == 0 {
		return memberEntry{}, false
	}
	d := memberEntry{index: index, kind: c.Type, member: Member{ID: c.NodeID, Learner: c.Type == raftpb.ConfChangeAddLearnerNode}}
	var m membership.ConfigChangeContext
	if len(c.Context) > 0 && json.Unmarshal(c.Context, &m) != nil {
		return memberEntry{}, false
	}
	d.member.PeerURLs = m.PeerURLs
	return d, true
}

// nameChange reads the request by which a member tells its name, in the form of etcd 3.6 and later.
func nameChange(index uint64, data []byte) (memberEntry, bool) {
	var r membershippb.ClusterMemberAttrSetRequest
	if r.Unmarshal(data) != nil || r.MemberAttributes == nil {
		return memberEntry{}, false
	}
	return memberEntry{index: index, named: true, member: Member{ID: r.Member_ID, Name: r.MemberAttributes.Name, ClientURLs: r.MemberAttributes.ClientUrls}}, true
}

// nameChangeVersion2 does so for the form of etcd 3.5 and before; ok is false for other requests.
func nameChangeVersion2(index uint64, r *etcdserverpb.Request) (c memberEntry, ok bool) {
	dir, last := path.Split(r.Path)
	if last != "attributes" || r.Method != "PUT" {
		return c, false
	}
	id, err := strconv.ParseUint(path.Base(dir), 16, 64)
	var a membership.Attributes
	if err != nil || json.Unmarshal([]byte(r.Val), &a) != nil {
		return c, false
	}
	return memberEntry{index: index, named: true, member: Member{ID: id, Name: a.Name, ClientURLs: a.ClientURLs}}, true
}

// roles are who raft counts, by id, sorted.
type roles struct{ voters, learners []uint64 }

func (r roles) String() string { return fmt.Sprintf("voters %x and learners %x", r.voters, r.learners) }

func (r roles) equal(o roles) bool {
	return slices.Equal(r.voters, o.voters) && slices.Equal(r.learners, o.learners)
}

// follow makes the roles after the changes of entries up to an index.
func (r roles) follow(changes []memberEntry, upTo uint64) roles {
	voters, learners := slices.Clone(r.voters), slices.Clone(r.learners)
	without := func(ids []uint64, id uint64) []uint64 {
		return slices.DeleteFunc(ids, func(other uint64) bool { return other == id })
	}
	for _, c := range changes {
		if id := c.member.ID; c.index <= upTo && !c.named && c.kind != raftpb.ConfChangeUpdateNode {
			voters, learners = without(voters, id), without(learners, id)
			switch c.kind {
			case raftpb.ConfChangeAddNode:
				voters = append(voters, id)
			case raftpb.ConfChangeAddLearnerNode:
				learners = append(learners, id)
			}
		}
	}
	slices.Sort(voters)
	slices.Sort(learners)
	return roles{voters, learners}
}

// rolesOf are those that the members in a database say they have.
func rolesOf(members []Member) (r roles) {
	for _, m := range members {
		if m.Learner {
			r.learners = append(r.learners, m.ID)
		} else {
			r.voters = append(r.voters, m.ID)
		}
	}
	slices.Sort(r.voters)
	slices.Sort(r.learners)
	return r
}

// followMembers makes the members after the changes of entries behind an index.
func followMembers(members []Member, changes []memberEntry, after uint64) []Member {
	members = slices.Clone(members)
	for _, c := range changes {
		if c.index <= after {
			continue
		}
		i := slices.IndexFunc(members, func(m Member) bool { return m.ID == c.member.ID })
		switch {
		case c.named && i >= 0:
			members[i].Name, members[i].ClientURLs = c.member.Name, c.member.ClientURLs
		case c.named:
		case c.kind == raftpb.ConfChangeRemoveNode && i >= 0:
			members = slices.Delete(members, i, i+1)
		case c.kind == raftpb.ConfChangeRemoveNode:
		case i < 0:
			members = append(members, c.member)
		case c.kind == raftpb.ConfChangeUpdateNode:
			members[i].PeerURLs = c.member.PeerURLs
		default: // a learner is promoted
			members[i].Learner = c.member.Learner
		}
	}
	slices.SortFunc(members, func(a, b Member) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return members
}

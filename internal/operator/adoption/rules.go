package adoption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// rule is a reason not to take a cluster over.
type rule struct {
	number  int
	phrase  string // what it is about
	against func(Found, *layout) []string
}

// rules are all reasons. All that apply are told, so that a person sees at once what has to be done.
var rules = []rule{
	{1, "the version of etcd", versions},
	{2, "whether a member answers", answers},
	{3, "a cluster that sleeps", asleep},
	{4, "the members", members},
	{5, "the configuration file", configuration},
	{6, "ports and schemes", addresses},
	{7, "the size", size},
	{8, "the volumes", volumes},
}

// The oldest and the newest etcd from which a member is upgraded in place.
const oldest, newest = "3.5", "3.6"

// upgradeFirst is the way out for data that are too old.
const upgradeFirst = "have the original bring it to 3.5 first (its feature gate UpgradeEtcdVersion), or make a new Etcd and restore the backups into it"

// versions is about etcds that run. Etcd goes from one minor version to the next only.
func versions(f Found, _ *layout) (no []string) {
	for _, i := range slices.Sorted(maps.Keys(f.Members)) {
		m := f.Members[i]
		if m.Etcd == nil {
			continue
		}
		switch v := m.Etcd.Version; {
		case older(v, oldest):
			no = append(no, fmt.Sprintf("%s runs etcd %s, whose data etcd 3.6 does not read: %s", m.Name, v, upgradeFirst))
		case older(newest, v):
			no = append(no, fmt.Sprintf("%s runs etcd %s, and this operator brings 3.6: finish a downgrade of the cluster with etcdctl first", m.Name, v))
		}
	}
	return no
}

// older compares the minor versions. A text that is no version is older than any.
func older(a, b string) bool {
	number := func(v string) int {
		major, rest, _ := strings.Cut(v, ".")
		minor, _, _ := strings.Cut(rest, ".")
		x, err := strconv.Atoi(major)
		y, err2 := strconv.Atoi(minor)
		if err != nil || err2 != nil {
			return 0
		}
		return x*1000 + y
	}
	return number(a) < number(b)
}

// answers: of a cluster of which nobody says its version nothing is known.
func answers(f Found, _ *layout) []string {
	if replicas(f) == 0 || len(f.Members) > 0 {
		return nil
	}
	return []string{"no member's etcd answers the operator at its client port, so that its version is not known: mend the cluster, or let the operator's pods through the network policy"}
}

// asleep: of a cluster without pods the image is all there is. What cannot be told by it, the members
// find when they start: they refuse data that are too old, and leave them as they are.
func asleep(f Found, _ *layout) []string {
	if replicas(f) > 0 {
		return nil
	}
	for _, c := range f.StatefulSet.Spec.Template.Spec.Containers {
		if version, ok := wrapper(c.Image); ok && older(version, "0.7") {
			return []string{fmt.Sprintf("the cluster sleeps, and its image %s is of etcd 3.4, whose data etcd 3.6 does not read: wake it, and %s", c.Image, upgradeFirst)}
		}
	}
	return nil
}

// wrapper is the version of the original's etcd-wrapper by its image. Those before v0.7 are of etcd 3.4.
func wrapper(image string) (version string, ok bool) {
	path, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	tag, _, _ = strings.Cut(tag, "@")
	return strings.TrimPrefix(tag, "v"), tagged && path == "etcd-wrapper" && strings.HasPrefix(tag, "v")
}

// members: all that etcd lists must be ours, and vote. Otherwise a change is under way.
func members(f Found, _ *layout) []string {
	var wrong []string
	for _, i := range slices.Sorted(maps.Keys(f.Members)) {
		m := f.Members[i]
		if m.Etcd == nil || m.Etcd.Leader == "" || len(m.Etcd.Members) == 0 {
			continue
		}
		for _, l := range m.Etcd.Members {
			_, ours := f.Etcd.MemberOrdinal(l.Name)
			switch at := cmp.Or(l.Name, strings.Join(l.PeerURLs, ", ")); {
			case l.Name == "":
				wrong = append(wrong, at+" was added and never started")
			case !ours:
				wrong = append(wrong, at+" is none of this Etcd's")
			case l.Learner:
				wrong = append(wrong, at+" has no vote yet")
			}
		}
		if n := len(m.Etcd.Members); len(wrong) == 0 && n != replicas(f) {
			wrong = append(wrong, fmt.Sprintf("etcd lists %d members of %d", n, replicas(f)))
		}
		break // they agree, as far as they see a leader
	}
	if len(wrong) == 0 {
		return nil
	}
	return []string{"the members are about to change (" + strings.Join(wrong, "; ") + "): let the original finish that, or correct the list with etcdctl"}
}

func configuration(f Found, l *layout) []string {
	switch {
	case l == nil:
		return []string{fmt.Sprintf("the ConfigMap %s has no %s that can be read, so that where the data are is not known: let the original reconcile the Etcd first", f.Etcd.ConfigMapName(), configFile)}
	case l.DataDir != dataDir:
		return []string{fmt.Sprintf("the data are in %q and not in %s: let the original reconcile the Etcd first", l.DataDir, dataDir)}
	}
	return nil
}

// addresses: peers and clients must find the members where they are while one pod after the other is
// replaced.
func addresses(f Found, l *layout) (no []string) {
	if l == nil {
		return nil
	}
	want := func(tls bool, port *int32, otherwise int32) string {
		scheme := "http"
		if tls {
			scheme = "https"
		}
		if port != nil {
			otherwise = *port
		}
		return fmt.Sprintf("%s on port %d", scheme, otherwise)
	}
	c := f.Etcd.Spec.Etcd
	for _, a := range []struct{ who, fields, is, want string }{
		{"peers", "spec.etcd.peerUrlTls and serverPort", listens(l.Peers), want(c.PeerUrlTLS != nil, c.ServerPort, 2380)},
		{"clients", "spec.etcd.clientUrlTls and clientPort", listens(l.Clients), want(c.ClientUrlTLS != nil, c.ClientPort, 2379)},
	} {
		if a.is != a.want {
			no = append(no, fmt.Sprintf("members serve %s by %s, and the specification wants %s: set %s back until the cluster is taken over", a.who, a.is, a.want, a.fields))
		}
	}
	return no
}

// size: pods go and come during a take-over, so their number stays. A cluster that sleeps may be woken.
func size(f Found, _ *layout) []string {
	want, have := int(f.Etcd.Spec.Replicas), replicas(f)
	if have == 0 || want == have {
		return nil
	}
	return []string{fmt.Sprintf("%d members run, and the specification wants %d: set spec.replicas back to %d until the cluster is taken over", have, want, have)}
}

// volumes: the pods have one claim each, in which the data are.
func volumes(f Found, _ *layout) []string {
	templates := f.StatefulSet.Spec.VolumeClaimTemplates
	if len(templates) != 1 {
		return []string{fmt.Sprintf("the StatefulSet has %d templates of volume claims, and one is known what to do with: copy the backups into a new Etcd", len(templates))}
	}
	mounts := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == templates[0].Name && m.MountPath == dataVolume && m.SubPath == ""
		})
	}
	if !slices.ContainsFunc(f.StatefulSet.Spec.Template.Spec.Containers, mounts) {
		return []string{fmt.Sprintf("no container mounts the claim %s at %s, where the data are looked for: let the original reconcile the Etcd first", templates[0].Name, dataVolume)}
	}
	return nil
}

func replicas(f Found) int {
	if r := f.StatefulSet.Spec.Replicas; r != nil {
		return int(*r)
	}
	return 1
}

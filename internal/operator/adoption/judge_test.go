package adoption

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

func ptr[T any](v T) *T { return &v }

const conf = `
name: etcd-config
data-dir: /var/etcd/data/new.etcd
listen-peer-urls: https://0.0.0.0:2380
listen-client-urls: http://0.0.0.0:2379
initial-cluster: main-0=https://main-0.main-peer.shop.svc:2380,main-1=https://main-1.main-peer.shop.svc:2380,main-2=https://main-2.main-peer.shop.svc:2380
`

// found is a cluster of three on etcd 3.5 as the original lays it out today.
func found(change ...func(*Found)) Found {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "shop", UID: "uid"}, Spec: druidv1alpha1.EtcdSpec{Replicas: 3}}
	e.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}
	f := Found{Etcd: e, Members: map[int]agentapi.Member{}}
	f.StatefulSet = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr(int32(3)), ServiceName: "main-peer", PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector:             &metav1.LabelSelector{MatchLabels: e.SelectorLabels()},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "main"}}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "etcd", Image: "europe-docker.pkg.dev/gardener-project/public/gardener/etcd-wrapper:v0.8.0", VolumeMounts: []corev1.VolumeMount{{Name: "main", MountPath: "/var/etcd/data"}},
		}}}},
	}}
	f.ConfigMap = &corev1.ConfigMap{Data: map[string]string{"etcd.conf.yaml": conf}}
	var listed []agentapi.Listed
	for i := range 3 {
		listed = append(listed, agentapi.Listed{Name: e.MemberName(i)})
	}
	for i := range 3 {
		f.Pods = append(f.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: e.PodName(i), Labels: e.PodLabels()}})
		f.Claims = append(f.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: e.VolumeClaimName(i), Labels: e.SelectorLabels()}})
		f.Members[i] = agentapi.Member{Name: e.MemberName(i), Etcd: &agentapi.Etcd{Version: "3.5.27", Leader: "a0", Members: slices.Clone(listed)}}
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func version(i int, v string) func(*Found) { return func(f *Found) { f.Members[i].Etcd.Version = v } }

func list(change func([]agentapi.Listed) []agentapi.Listed) func(*Found) {
	return func(f *Found) {
		for _, m := range f.Members {
			m.Etcd.Members = change(m.Etcd.Members)
		}
	}
}

func file(old, text string) func(*Found) {
	return func(f *Found) { f.ConfigMap.Data["etcd.conf.yaml"] = strings.ReplaceAll(conf, old, text) }
}

func sleeping(f *Found) { f.StatefulSet.Spec.Replicas, f.Members, f.Pods = ptr(int32(0)), nil, nil }

func image(name string) func(*Found) {
	return func(f *Found) { f.StatefulSet.Spec.Template.Spec.Containers[0].Image = name }
}

func both(a, b func(*Found)) func(*Found) { return func(f *Found) { a(f); b(f) } }

// former is how the original laid clusters out before it had today's labels.
func former(f *Found) {
	f.StatefulSet.Spec.Selector.MatchLabels = map[string]string{"name": "etcd", "instance": "main"}
	for i := range 3 {
		f.Pods[i].Labels = map[string]string{"name": "etcd", "instance": "main", "custom": "kept"}
		f.Claims[i].Labels = map[string]string{"name": "etcd", "instance": "main"}
	}
}

var labelled3 = []string{"main-0", "main-1", "main-2", "main-main-0", "main-main-1", "main-main-2"}

// The cases, by the number of the rule that they are about; 0: of none.
var cases = []struct {
	number  int
	phrase  string
	change  func(*Found)
	refused []string // a part of each reason; none: it is taken over
	relabel []string
	replace []string
}{
	{0, "as the original lays clusters out today", func(*Found) {}, nil, nil, nil},
	{0, "from before today's labels", former, nil, labelled3, []string{"selector"}},
	{0, "labels were given, the StatefulSet is to come", both(former, func(f *Found) {
		for i := range 3 {
			maps.Copy(f.Pods[i].Labels, f.Etcd.MemberPodLabels())
			maps.Copy(f.Claims[i].Labels, f.Etcd.SelectorLabels())
		}
	}), nil, nil, []string{"selector"}},
	{0, "an expression in the selector", func(f *Found) {
		f.StatefulSet.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpDoesNotExist}}
	}, nil, nil, []string{"selector"}},
	{0, "one pod after the other", func(f *Found) { f.StatefulSet.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }, nil, nil, []string{"podManagementPolicy"}},
	{0, "another name of the Service", func(f *Found) { f.StatefulSet.Spec.ServiceName = "main" }, nil, nil, []string{"serviceName"}},
	{0, "claims of another name and size stay", func(f *Found) {
		f.StatefulSet.Spec.VolumeClaimTemplates[0].Name = "data"
		f.StatefulSet.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "data"
	}, nil, nil, nil},

	{1, "a member of etcd 3.4", version(1, "3.4.34"), []string{"main-1 runs etcd 3.4.34"}, nil, nil},
	{1, "all of 3.4", both(version(0, "3.4.34"), both(version(1, "3.4.34"), version(2, "3.4.34"))), []string{"main-0 runs", "main-1 runs", "UpgradeEtcdVersion"}, nil, nil},
	{1, "a newer etcd", version(2, "3.7.0"), []string{"main-2 runs etcd 3.7.0"}, nil, nil},
	{1, "one of 3.6 already, as after a crash in the middle", version(2, "3.6.16"), nil, nil, nil},
	{2, "nobody answers", func(f *Found) { f.Members = nil }, []string{"no member's etcd answers"}, nil, nil},
	{2, "one answers", func(f *Found) { delete(f.Members, 1); delete(f.Members, 2) }, nil, nil, nil},
	{3, "asleep with 3.4", both(sleeping, image("reg.example.org/etcd-wrapper:v0.6.2")), []string{"is of etcd 3.4"}, nil, nil},
	{3, "asleep with 3.5", sleeping, nil, nil, nil},
	{3, "asleep with an image that nobody knows", both(sleeping, image("reg.example.org/my-etcd:v0.1.0@sha256:ab")), nil, nil, nil},
	{4, "a member of somebody else", list(func(l []agentapi.Listed) []agentapi.Listed { return append(l, agentapi.Listed{Name: "other-0"}) }), []string{"other-0 is none of this Etcd's"}, nil, nil},
	{4, "a learner", list(func(l []agentapi.Listed) []agentapi.Listed { l[2].Learner = true; return l }), []string{"main-2 has no vote yet"}, nil, nil},
	{4, "a member that never started", list(func(l []agentapi.Listed) []agentapi.Listed {
		l[2] = agentapi.Listed{PeerURLs: []string{"http://x:1"}}
		return l
	}), []string{"http://x:1 was added and never started"}, nil, nil},
	{4, "a member less", list(func(l []agentapi.Listed) []agentapi.Listed { return l[:2] }), []string{"etcd lists 2 members of 3"}, nil, nil},
	{5, "no configuration", func(f *Found) { f.ConfigMap = nil }, []string{"main-config has no etcd.conf.yaml"}, nil, nil},
	{5, "a broken configuration", file("name: etcd-config", "name: ["), []string{"that can be read"}, nil, nil},
	{5, "data elsewhere", file("new.etcd", "default.etcd"), []string{`"/var/etcd/data/default.etcd"`}, nil, nil},
	{6, "peers without TLS", file("listen-peer-urls: https", "listen-peer-urls: http"), []string{"serve peers by http on port 2380"}, nil, nil},
	{6, "another port for clients", func(f *Found) { f.Etcd.Spec.Etcd.ClientPort = ptr(int32(3379)) }, []string{"wants http on port 3379"}, nil, nil},
	{7, "fewer wanted", func(f *Found) { f.Etcd.Spec.Replicas = 1 }, []string{"set spec.replicas back to 3"}, nil, nil},
	{7, "to fall asleep", func(f *Found) { f.Etcd.Spec.Replicas = 0 }, []string{"set spec.replicas back to 3"}, nil, nil},
	{8, "two claims", func(f *Found) {
		f.StatefulSet.Spec.VolumeClaimTemplates = append(f.StatefulSet.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{})
	}, []string{"2 templates of volume claims"}, nil, nil},
	{8, "the claim is mounted elsewhere", func(f *Found) { f.StatefulSet.Spec.Template.Spec.Containers[0].VolumeMounts[0].MountPath = "/data" }, []string{"mounts the claim main at /var/etcd/data"}, nil, nil},
	{0, "everything that stands against it is told", both(version(0, "3.4.1"), func(f *Found) { f.Etcd.Spec.Replicas = 5 }), []string{"3.4.1", "wants 5"}, nil, nil},
}

func TestWhatOfTheOriginalIsTakenOver(t *testing.T) {
	for _, c := range cases {
		t.Run(c.phrase, func(t *testing.T) {
			v := Judge(found(c.change))
			text := strings.Join(v.Refused, "\n")
			for _, part := range c.refused {
				if !strings.Contains(text, part) {
					t.Errorf("refused for %q, want a reason with %q", text, part)
				}
			}
			if len(c.refused) == 0 && len(v.Refused) > 0 {
				t.Errorf("refused for %q, want it taken over", text)
			}
			var relabel []string
			for _, o := range v.Relabel {
				relabel = append(relabel, o.GetName())
			}
			if d := cmp.Diff(c.relabel, relabel); d != "" {
				t.Errorf("relabelled (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.replace, v.Replace); d != "" {
				t.Errorf("fields that cannot be changed (-want +got):\n%s", d)
			}
		})
	}
}

func TestEachCaseIsRefusedByItsOwnRule(t *testing.T) {
	met := map[int]bool{}
	for _, c := range cases {
		if c.number == 0 {
			continue
		}
		f := found(c.change)
		for _, r := range rules {
			against := len(r.against(f, readLayout(f.ConfigMap))) > 0
			if want := r.number == c.number && len(c.refused) > 0; against != want {
				t.Errorf("%s: rule %d (%s) is against it: %t, want %t", c.phrase, r.number, r.phrase, against, want)
			}
			met[r.number] = met[r.number] || against
		}
	}
	for _, r := range rules {
		if !met[r.number] {
			t.Errorf("no case is refused by rule %d (%s)", r.number, r.phrase)
		}
	}
}

// The operator finds them by their labels when it removes them.
func TestHeartbeatsOfSnapshotsGetLabels(t *testing.T) {
	with := func(labels map[string]string) func(*Found) {
		return func(f *Found) {
			f.Leases = []client.Object{&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "main-full-snap", Labels: labels}}}
		}
	}
	for phrase, c := range map[string]struct {
		labels map[string]string
		want   int
	}{
		"former ones": {map[string]string{"instance": "main"}, 1},
		"today's":     {map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: "main"}, 0},
	} {
		if v := Judge(found(with(c.labels))); len(v.Relabel) != c.want || c.want == 1 && (v.Relabel[0].GetLabels()[druidv1alpha1.LabelPartOf] != "main" || v.Relabel[0].GetLabels()["instance"] != "main") {
			t.Errorf("%s: %v are labelled, want %d", phrase, v.Relabel, c.want)
		}
	}
}

func TestLabelsOfOthersStay(t *testing.T) {
	v := Judge(found(former))
	l := v.Relabel[0].GetLabels()
	for k, want := range map[string]string{"custom": "kept", "instance": "main", druidv1alpha1.LabelPartOf: "main", druidv1alpha1.LabelComponent: druidv1alpha1.ComponentStatefulSet} {
		if l[k] != want {
			t.Errorf("label %s is %q, want %q", k, l[k], want)
		}
	}
}

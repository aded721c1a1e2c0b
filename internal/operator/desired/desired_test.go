package desired

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/memberconf"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ptr[T any](v T) *T { return &v }

func etcd(change func(e *druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	e := &druidv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: "shoot--a--b", UID: "3b7c"},
		Spec:       druidv1alpha1.EtcdSpec{Replicas: 3, Labels: map[string]string{"role": "main"}},
	}
	if change != nil {
		change(e)
	}
	e.SetDefaults()
	return e
}

func tls(name string) druidv1alpha1.TLSConfig {
	return druidv1alpha1.TLSConfig{
		TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: name + "-ca"}, DataKey: ptr("bundle.crt")},
		ServerTLSSecretRef: corev1.SecretReference{Name: name + "-server"},
		ClientTLSSecretRef: &corev1.SecretReference{Name: name + "-client"},
	}
}

func withEverything(e *druidv1alpha1.Etcd) {
	e.Spec.MemberNamePrefix = ptr("blue")
	e.Spec.Annotations = map[string]string{"note": "yes"}
	e.Spec.Etcd.ClientUrlTLS = ptr(tls("etcd"))
	e.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: tls("peer"), SkipClientSANVerification: ptr(true)}
	e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.AdditionalPeerURL{{MemberName: "blue-etcd-main-1", URLs: []string{"https://one.example.org:2380"}}}
	e.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Labels: map[string]string{"a": "b", druidv1alpha1.LabelPartOf: "stolen"}, Annotations: map[string]string{"c": "d"}, TrafficDistribution: ptr("PreferSameZone")}
	e.Spec.Backup.TLS = ptr(tls("sidecar"))
	e.Spec.Backup.EnableProfiling = ptr(true)
	e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: ptr("backups"), Prefix: "shoot--a--b/etcd-main", Provider: ptr(druidv1alpha1.StorageProvider("aws")), EndpointOverride: ptr("https://s3.example.org"), SecretRef: &corev1.SecretReference{Name: "backup"}}
	e.Spec.StorageClass = ptr("fast")
	e.Spec.PriorityClassName = ptr("critical")
}

func input(e *druidv1alpha1.Etcd) Input {
	return Input{
		Etcd: e, Images: Images{Wrapper: "w:1", Sidecar: "s:1", Init: "i:1"},
		Members: e.Spec.Replicas, Replicas: e.Spec.Replicas, MinAvailable: e.Spec.Replicas/2 + 1,
		PeerTLS: e.Spec.Etcd.PeerUrlTLS != nil, PeerCertificates: e.Spec.Etcd.PeerUrlTLS != nil,
		Owner: "cluster/shoot--a--b/etcd-main/3b7c", Token: []byte("secret"),
	}
}

var shapes = map[string]func(e *druidv1alpha1.Etcd){
	"plain":      nil,
	"everything": withEverything,
	"local": func(e *druidv1alpha1.Etcd) {
		e.Spec.Replicas = 1
		e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: ptr("bucket"), Prefix: "p", Provider: ptr(druidv1alpha1.StorageProvider("local"))}
	},
}

// golden compares what was made with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	for name, change := range shapes {
		t.Run(name, func(t *testing.T) {
			set, err := Objects(input(etcd(change)))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, o := range set.InOrder() {
				b, err := yaml.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString("---\n")
				got.Write(b)
			}
			golden(t, name, got.Bytes())
		})
	}
}

// TestAnEmptyReferenceIsNone: clients written in Go send an empty reference for none.
func TestAnEmptyReferenceIsNone(t *testing.T) {
	made := func(ref *corev1.SecretReference) *Set {
		s, err := Objects(input(etcd(func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.TLS, e.Spec.Etcd.ClientUrlTLS = ptr(tls("sidecar")), ptr(tls("etcd"))
			e.Spec.Backup.TLS.ClientTLSSecretRef, e.Spec.Etcd.ClientUrlTLS.ClientTLSSecretRef = ref, ref
		})))
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	if diff := cmp.Diff(made(nil), made(&corev1.SecretReference{})); diff != "" {
		t.Errorf("(-none +empty):\n%s", diff)
	}
}

func TestTheSidecarIsToldOfTheLocksThatItAsksFor(t *testing.T) {
	of := func(i *druidv1alpha1.ImmutabilitySpec) config.ObjectLock {
		s, err := Objects(input(etcd(func(e *druidv1alpha1.Etcd) { withEverything(e); e.Spec.Backup.Store.Immutability = i })))
		if err != nil {
			t.Fatal(err)
		}
		conf, err := config.Parse([]byte(s.ConfigMap.Data[SidecarFile]))
		if err != nil {
			t.Fatal(err)
		}
		return conf.Store.ObjectLock
	}
	const period = config.Duration(96 * time.Hour)
	each := druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour}}
	weaker := each
	weaker.Mode = ptr(druidv1alpha1.RetentionGovernance)
	for phrase, c := range map[string]struct {
		asked *druidv1alpha1.ImmutabilitySpec
		want  config.ObjectLock
	}{
		"none":       {nil, config.ObjectLock{Mode: "compliance"}},
		"the bucket": {&druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket}, config.ObjectLock{Mode: "compliance"}},
		"each":       {&each, config.ObjectLock{Period: period, Mode: "compliance"}},
		"weaker":     {&weaker, config.ObjectLock{Period: period, Mode: "governance"}},
	} {
		if got := of(c.asked); got != c.want {
			t.Errorf("%s: %+v, want %+v", phrase, got, c.want)
		}
	}
}

// TestTheSidecarIsToldOfTheClusterOutside, and no pod is replaced when that changes.
func TestTheSidecarIsToldOfTheClusterOutside(t *testing.T) {
	joins := func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
			Members:         []druidv1alpha1.ExistingMember{{Name: "old-0", PeerURLs: []string{"http://old-0:2380", "http://10.0.0.1:2380"}}, {Name: "old-1", PeerURLs: []string{"http://old-1:2380"}}},
			ClientEndpoints: []string{"http://old:2379"},
		}
	}
	set := func(change func(*druidv1alpha1.Etcd)) Set {
		s, err := Objects(input(etcd(change)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain, joining := set(nil), set(joins)
	conf, err := config.Parse([]byte(joining.ConfigMap.Data[SidecarFile]))
	if err != nil {
		t.Fatal(err)
	}
	want := config.ExistingCluster{Endpoints: []string{"http://old:2379"}, Members: []config.ExistingMember{
		{Name: "old-0", PeerURLs: []string{"http://old-0:2380", "http://10.0.0.1:2380"}}, {Name: "old-1", PeerURLs: []string{"http://old-1:2380"}}}}
	if diff := cmp.Diff(want, conf.ExistingCluster); diff != "" {
		t.Errorf("the sidecar reads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plain.StatefulSet, joining.StatefulSet); diff != "" {
		t.Errorf("pods would be replaced (-without +with):\n%s", diff)
	}
	if bytes.Equal(Followed(plain.ConfigMap), Followed(joining.ConfigMap)) {
		t.Error("what the sidecars follow does not tell the two apart")
	}
	if !bytes.Equal(Followed(plain.ConfigMap), []byte(plain.ConfigMap.Data[EtcdFile])) {
		t.Error("without a cluster outside they follow more than etcd's file")
	}
}

func TestTheSidecarReadsWhatItIsGiven(t *testing.T) {
	for name, change := range shapes {
		t.Run(name, func(t *testing.T) {
			e := etcd(change)
			set, err := Objects(input(e))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Parse([]byte(set.ConfigMap.Data[SidecarFile])); err != nil {
				t.Errorf("the sidecar's configuration: %v\n%s", err, set.ConfigMap.Data[SidecarFile])
			}
			conf, err := memberconf.Parse([]byte(set.ConfigMap.Data[EtcdFile]))
			if err != nil {
				t.Fatalf("etcd's configuration: %v\n%s", err, set.ConfigMap.Data[EtcdFile])
			}
			for i, p := range conf.Wanted() {
				if p.Name != e.MemberName(i) {
					t.Errorf("member %d is %s, want %s", i, p.Name, e.MemberName(i))
				}
			}
			if n := len(conf.Wanted()); n != int(e.Spec.Replicas) {
				t.Errorf("%d members, want %d", n, e.Spec.Replicas)
			}
		})
	}
}

func TestAdditionalPeerURLsBelongToTheMemberThatIsNamedWithItsPrefix(t *testing.T) {
	in := input(etcd(withEverything))
	if got := peerURLs(in, 1); len(got) != 2 || got[1] != "https://one.example.org:2380" {
		t.Errorf("member 1 has %v", got)
	}
	if got := peerURLs(in, 0); len(got) != 1 {
		t.Errorf("member 0 has %v", got)
	}
	in.PeerTLS = false
	if got := peerURLs(in, 1); len(got) != 1 || !strings.HasPrefix(got[0], "http://") {
		t.Errorf("before the change to https member 1 has %v", got)
	}
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	render := func() string {
		set, err := Objects(input(etcd(withEverything)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := yaml.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := render()
	for range 20 {
		if got := render(); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}

func checksum(t *testing.T, in Input) string {
	t.Helper()
	set, err := Objects(in)
	if err != nil {
		t.Fatal(err)
	}
	return set.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationConfigMapChecksum]
}

func TestPodsAreReplacedForWhatOnlyNewPodsRead(t *testing.T) {
	base := checksum(t, input(etcd(withEverything)))
	for name, c := range map[string]struct {
		change func(in *Input)
		same   bool
	}{
		"more members":            {func(in *Input) { in.Members, in.Replicas = 5, 5 }, true},
		"peers by http":           {func(in *Input) { in.PeerTLS = false }, true},
		"what backups must have":  {func(in *Input) { in.AtLeast = 9002 }, true},
		"what clients have seen":  {func(in *Input) { in.LastKnown = 9002 }, true},
		"that a full comes first": {func(in *Input) { in.FullFirst = true }, true},
		"another quota":           {func(in *Input) { in.Etcd.Spec.Etcd.Quota = ptr(resource.MustParse("4Gi")) }, false},
		"another schedule":        {func(in *Input) { in.Etcd.Spec.Backup.FullSnapshotSchedule = ptr("@hourly") }, false},
		"another bucket":          {func(in *Input) { in.Etcd.Spec.Backup.Store.Container = ptr("other") }, false},
		"another heartbeat":       {func(in *Input) { in.Etcd.Spec.Etcd.HeartbeatDuration = &metav1.Duration{Duration: time.Minute} }, false},
		"another capacity":        {func(in *Input) { in.Etcd.Spec.StorageCapacity = ptr(resource.MustParse("99Gi")) }, true},
		"a pod disruption budget": {func(in *Input) { in.MinAvailable = 3 }, true},
	} {
		in := input(etcd(withEverything))
		c.change(&in)
		if got := checksum(t, in); (got == base) != c.same {
			t.Errorf("%s: the same checksum is %t, want %t", name, got == base, c.same)
		}
	}
}

func TestOnlyMembersAreSelected(t *testing.T) {
	set, err := Objects(input(etcd(withEverything)))
	if err != nil {
		t.Fatal(err)
	}
	job := labels.Set(etcd(nil).ObjectLabels(druidv1alpha1.ComponentCompactionJob, "etcd-main-compactor"))
	pod := labels.Set(set.StatefulSet.Spec.Template.Labels)
	for name, selector := range map[string]map[string]string{
		"the client Service":      set.ClientService.Spec.Selector,
		"the peer Service":        set.PeerService.Spec.Selector,
		"the PodDisruptionBudget": set.PodDisruptionBudget.Spec.Selector.MatchLabels,
	} {
		s := labels.SelectorFromSet(selector)
		if !s.Matches(pod) || s.Matches(job) {
			t.Errorf("%s selects a member %t and a Job's pod %t, want true and false", name, s.Matches(pod), s.Matches(job))
		}
	}
	if !labels.SelectorFromSet(set.StatefulSet.Spec.Selector.MatchLabels).Matches(pod) {
		t.Error("the StatefulSet does not select its pods")
	}
}

// Every provider of the API is known, and its credentials are where the sidecar looks for them.
func TestEveryProviderHasItsCredentials(t *testing.T) {
	for provider, want := range map[string]string{
		"aws": "AWS_APPLICATION_CREDENTIALS=/var/etcd-backup", "stackit": "AWS_APPLICATION_CREDENTIALS=/var/etcd-backup",
		"azure": "AZURE_APPLICATION_CREDENTIALS=/var/etcd-backup", "gcp": "GOOGLE_APPLICATION_CREDENTIALS=/var/.gcp/serviceaccount.json",
		"openstack": "OPENSTACK_APPLICATION_CREDENTIALS=/var/etcd-backup", "alicloud": "ALICLOUD_APPLICATION_CREDENTIALS=/var/etcd-backup",
		"openshift": "OPENSHIFT_APPLICATION_CREDENTIALS=/var/etcd-backup", "dell": "ECS_APPLICATION_CREDENTIALS=/var/etcd-backup",
	} {
		in := input(etcd(func(e *druidv1alpha1.Etcd) {
			withEverything(e)
			e.Spec.Backup.Store.Provider = ptr(druidv1alpha1.StorageProvider(provider))
		}))
		set, err := Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		sidecar := set.StatefulSet.Spec.Template.Spec.Containers[1]
		var env []string
		for _, v := range sidecar.Env {
			env = append(env, v.Name+"="+v.Value)
		}
		if !slices.Contains(env, want) {
			t.Errorf("%s: %v, want %s", provider, env, want)
		}
		mounted := slices.ContainsFunc(sidecar.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == ownStore.volume })
		if !mounted {
			t.Errorf("%s: the Secret is not mounted", provider)
		}
		in.Etcd.Spec.Backup.Store.SecretRef = nil
		if env, volume, _ := credentials(in.Etcd.Spec.Backup.Store, ownStore); env != nil || volume != nil {
			t.Errorf("%s: without a Secret there are %v, %v", provider, env, volume)
		}
	}
}

func TestEtcdHasNoTokenForTheAPIServerAndTheRoleIsByName(t *testing.T) {
	set, err := Objects(input(etcd(withEverything)))
	if err != nil {
		t.Fatal(err)
	}
	pod := set.StatefulSet.Spec.Template.Spec
	for _, c := range pod.Containers {
		has := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == apiVolume })
		if has != (c.Name == ContainerSidecar) {
			t.Errorf("%s has a token of the API server: %t", c.Name, has)
		}
		if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) == 0 {
			t.Errorf("%s is not confined", c.Name)
		}
	}
	for _, r := range set.Role.Rules {
		if len(r.ResourceNames) != 3 {
			t.Errorf("the rule for %v names %v, want the three members", r.Resources, r.ResourceNames)
		}
	}
}

// What the sidecar has is a volume of its own, whatever the ServiceAccount says: TestEtcdHasNoTokenForTheAPIServerAndTheRoleIsByName.
func TestTokensAreMountedByTheServiceAccountUnlessTheOperatorIsToldOtherwise(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		in := input(etcd(nil))
		in.DisableServiceAccountAutomount = disabled
		set, err := Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ptr(!disabled), set.ServiceAccount.AutomountServiceAccountToken); d != "" {
			t.Errorf("disabled %t: tokens are mounted (-want +got):\n%s", disabled, d)
		}
	}
}

// A member that becomes root finds files of the former user on its volume, and may do no more than use them.
func TestRootMayUseTheFilesOfAnotherUser(t *testing.T) {
	for asRoot, want := range map[bool][]corev1.Capability{false: nil, true: {"DAC_OVERRIDE", "FOWNER"}} {
		set, err := Objects(input(etcd(func(e *druidv1alpha1.Etcd) { e.Spec.RunAsRoot = &asRoot })))
		if err != nil {
			t.Fatal(err)
		}
		pod := set.StatefulSet.Spec.Template.Spec
		if s := pod.SecurityContext; *s.RunAsNonRoot == asRoot || (*s.RunAsUser == 0) != asRoot {
			t.Errorf("runAsRoot: %t: the pod is %+v", asRoot, s)
		}
		for _, c := range pod.Containers {
			if got := c.SecurityContext.Capabilities; !slices.Equal(got.Add, want) || !slices.Equal(got.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("runAsRoot: %t: %s has %+v", asRoot, c.Name, got)
			}
		}
	}
}

// Each mount has its volume, and each volume but that of the claim is declared.
func TestEveryMountHasAVolume(t *testing.T) {
	for name, change := range shapes {
		set, err := Objects(input(etcd(change)))
		if err != nil {
			t.Fatal(err)
		}
		pod := set.StatefulSet.Spec.Template.Spec
		have := map[string]bool{set.StatefulSet.Spec.VolumeClaimTemplates[0].Name: true}
		for _, v := range pod.Volumes {
			have[v.Name] = true
		}
		used := map[string]bool{}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, m := range c.VolumeMounts {
				used[m.Name] = true
				if !have[m.Name] {
					t.Errorf("%s: container %s mounts %s, which is no volume", name, c.Name, m.Name)
				}
			}
		}
		for v := range have {
			if !used[v] {
				t.Errorf("%s: nobody mounts the volume %s", name, v)
			}
		}
	}
}

// What the operator decides from day to day reaches the sidecars under the keys that they read.
func TestSidecarsReadWhatTheOperatorDecides(t *testing.T) {
	in := input(etcd(withEverything))
	in.AtLeast, in.LastKnown, in.FullFirst, in.OthersLeave = 9002, 1_100_000_000, true, true
	in.Etcd.Spec.Backup.LeaderElection = &druidv1alpha1.LeaderElectionSpec{ReelectionPeriod: &metav1.Duration{Duration: 3 * time.Second}}
	set, err := Objects(in)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(set.ConfigMap.Data[SidecarFile]))
	if err != nil {
		t.Fatal(err)
	}
	r := c.Restoration
	if r.AtLeastRevision != 9002 || r.LastKnownRevision != 1_100_000_000 || !r.OthersLeave || !c.Snapshotter.FullFirst || c.LeaderElection.ReelectionPeriod.D() != 3*time.Second {
		t.Errorf("they read %+v, a full first %t, and a period of %s", r, c.Snapshotter.FullFirst, c.LeaderElection.ReelectionPeriod)
	}
}

// What is in the maps is written without going by way of JSON, which would tell by its own rules what a type looks like.
func TestConfigurationFilesAreWrittenAsJSONWouldHaveThem(t *testing.T) {
	for name, change := range shapes {
		in := input(etcd(change))
		in.AtLeast, in.LastKnown = 1<<60, 1<<50
		for file, conf := range map[string]map[string]any{EtcdFile: etcdConfig(in), SidecarFile: sidecarConfig(in)} {
			want, err := yaml.Marshal(conf)
			if err != nil {
				t.Fatal(err)
			}
			got, err := marshal(conf)
			if d := cmp.Diff(string(want), string(got)); d != "" || err != nil {
				t.Errorf("%s, %s (%v): -want +got:\n%s", name, file, err, d)
			}
		}
	}
}

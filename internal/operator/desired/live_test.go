package desired

import (
	"testing"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestWhatWasMadeIsReadBack(t *testing.T) {
	for name, change := range shapes {
		e := etcd(change)
		set, err := Objects(input(e))
		if err != nil {
			t.Fatal(err)
		}
		l := ReadConfigMap(e, set.ConfigMap)
		if l.Members != e.Spec.Replicas || l.PeerTLS != (e.Spec.Etcd.PeerUrlTLS != nil) {
			t.Errorf("%s: read %+v", name, l)
		}
		pod := Abridge(set.StatefulSet.Spec.Template.Spec)
		if OfOriginal(pod) {
			t.Errorf("%s: the pod is taken for one of the original", name)
		}
		if got, want := HasPeerCertificates(pod), e.Spec.Etcd.PeerUrlTLS != nil; got != want {
			t.Errorf("%s: certificates for peers: %t, want %t", name, got, want)
		}
		sidecar, ok := SidecarOf(pod)
		wantSidecar := Sidecar{Port: sidecarPort(e)}
		if tls := e.Spec.Backup.TLS; tls != nil {
			wantSidecar.CASecret, wantSidecar.CA = tls.TLSCASecretRef.Name, value(tls.TLSCASecretRef.DataKey, caKey)
		}
		if !ok || sidecar != wantSidecar {
			t.Errorf("%s: the sidecar is reached by %+v, %t, want %+v", name, sidecar, ok, wantSidecar)
		}
		in := input(e)
		in.Etcd = e.DeepCopy()
		if in.Etcd.Spec.Etcd.PeerUrlTLS = PeerTLSInUse(l, pod); in.Etcd.Spec.Etcd.PeerUrlTLS != nil {
			in.Etcd.Spec.Etcd.PeerUrlTLS.ClientTLSSecretRef = e.Spec.Etcd.PeerUrlTLS.ClientTLSSecretRef
		}
		again, err := Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(set, again); diff != "" {
			t.Errorf("%s: made of what is in use (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzReadConfigMap(f *testing.F) {
	f.Add("initial-cluster: etcd-main-0=http://a:2380,etcd-main-0=http://b:2380,etcd-main-2=http://c:2380")
	f.Add("initial-cluster: [1]")
	f.Fuzz(func(t *testing.T, text string) {
		e := etcd(nil)
		if l := ReadConfigMap(e, &corev1.ConfigMap{Data: map[string]string{EtcdFile: text}}); l.Members < 0 || l.Members > 100 {
			t.Errorf("%+v", l)
		}
	})
}

func TestAConfigMapThatCannotBeReadListsNobody(t *testing.T) {
	for _, c := range []*corev1.ConfigMap{nil, {}, {Data: map[string]string{EtcdFile: "{"}}, {Data: map[string]string{EtcdFile: "initial-cluster: other-0=http://x:2380"}}} {
		if got := ReadConfigMap(&druidv1alpha1.Etcd{}, c); got.Members != 0 {
			t.Errorf("%v: %+v", c, got)
		}
	}
}

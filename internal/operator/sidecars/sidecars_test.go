package sidecars

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
)

func TestTheLeaderIsFoundBesideASidecarThatCannotBeAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("it is asked with %q", r.Header)
		}
		_ = json.NewEncoder(w).Encode(agentapi.Member{Name: "main-1", BackupLeader: true})
	}))
	defer server.Close()
	_, text, _ := net.SplitHostPort(server.Listener.Addr().String())
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "shop"}}
	secret := func(name, of string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: of}}}
	}
	pod := func(name string, volumes ...corev1.Volume) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Status: corev1.PodStatus{PodIP: "127.0.0.1"},
			Spec: corev1.PodSpec{
				Volumes:    append(volumes, secret("sidecar-token", e.TokenSecretName())),
				Containers: []corev1.Container{{Name: desired.ContainerSidecar, Ports: []corev1.ContainerPort{{Name: "backuprestore", ContainerPort: int32(port)}}}},
			},
		}
	}
	secrets := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: e.TokenSecretName(), Namespace: "shop"}, Data: map[string][]byte{desired.TokenKey: []byte("secret\n")},
	}).Build()
	// The first pod was made with authorities whose Secret is gone: a rollout is about to replace it.
	pods := []corev1.Pod{pod("main-0", secret("backup-restore-ca", "former")), pod("main-1")}
	c, err := Dialer{Secrets: secrets, Timeout: time.Minute}.Leader(t.Context(), e, pods)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := (Dialer{Secrets: secrets, Timeout: time.Minute}).Leader(t.Context(), e, pods[:1]); err == nil {
		t.Error("a leader is found among the others")
	}
}

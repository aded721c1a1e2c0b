package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/cluster"
)

func TestAClusterThatIsThereAlreadyIsUsedAndLeftAlone(t *testing.T) {
	theirs := cluster.Run(t, cluster.Options{})
	ours := cluster.Run(t, cluster.Options{Kubeconfig: theirs.Kubeconfig})
	namespace(t, ours, "guests")
	config, err := ours.ServiceAccountConfig(t.Context(), "guests", "default")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := whoami(t, config), "system:serviceaccount:guests:default"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	if config, err = ours.ConfigFor("alice"); err != nil {
		t.Fatal(err)
	}
	if got := whoami(t, config); got != "alice" {
		t.Errorf("it is %s, want alice", got)
	}
	if err := ours.LoadImage(t.Context(), "image.tar"); err == nil {
		t.Error("an image was loaded on machines of somebody else")
	}
	if err := ours.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := theirs.Client.CoreV1().Namespaces().Get(t.Context(), "guests", metav1.GetOptions{}); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

func TestABundleTellsAStrangerWhatHappenedButNoSecret(t *testing.T) {
	c := cluster.Run(t, cluster.Options{})
	namespace(t, c, "shop")
	raw(t, c, "/api/v1/namespaces/shop/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"till"},"stringData":{"combination":"36-24-36"}}`)
	raw(t, c, "/api/v1/namespaces/shop/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"prices"},"data":{"apple":"2"}}`)
	raw(t, c, "/api/v1/namespaces/shop/events", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"type":"Warning","reason":"SoldOut","message":"no apples","involvedObject":{"kind":"ConfigMap","namespace":"shop","name":"prices"},"lastTimestamp":"2026-03-01T10:00:00Z"}`)
	dir := t.TempDir()
	if err := c.Bundle(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"shop/configmaps.yaml":       `apple: "2"`,
		"shop/secrets.yaml":          "combination: (12 characters of base64)",
		"cluster/namespaces.yaml":    "name: shop",
		"cluster/kube-apiserver.log": "Version: v1.36",
		"cluster/audit.log":          `"resource":"configmaps"`,
		"events.txt":                 "10:00:00.000 Warning SoldOut ConfigMap shop/prices no apples",
		"summary.txt":                "$ kubectl get nodes -o wide",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		// How wide the columns of a table are depends on what else is in it.
		if !strings.Contains(string(text), want) && !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("%s does not contain %q:\n%.2000s", file, want, text)
		}
		if strings.Contains(string(text), "36-24-36") || strings.Contains(string(text), "MzYtMjQtMzY=") {
			t.Errorf("%s contains the secret", file)
		}
	}
}

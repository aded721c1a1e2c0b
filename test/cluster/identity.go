package cluster

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeIdentities makes the certificates and keys of everybody who is somebody from the beginning.
func (c *Cluster) writeIdentities() error {
	pki := c.file("pki")
	hosts := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "127.0.0.1", c.address}
	if c.network != nil {
		hosts = append(hosts, c.network.firstService().String())
	}
	if err := c.ca.IssueFiles(pki, "apiserver.crt", "apiserver.key", hosts...); err != nil {
		return err
	}
	if err := c.ca.IssueFiles(pki, "serviceaccount.crt", "serviceaccount.key"); err != nil {
		return err
	}
	if err := os.WriteFile(c.file("pki", "ca.crt"), c.ca.PEM, 0o644); err != nil {
		return err
	}
	c.Kubeconfig = KubeconfigIn(c.Dir)
	var err error
	if c.Config, err = c.ConfigFor("admin", masters); err != nil {
		return err
	}
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.Kubeconfig, c.Config); err != nil {
		return err
	}
	for file, user := range map[string]string{
		"controllers.kubeconfig": "system:kube-controller-manager",
		"scheduler.kubeconfig":   "system:kube-scheduler",
		"proxy.kubeconfig":       "system:kube-proxy",
	} {
		if err := c.writeKubeconfigFor(c.file(file), user); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfigFor(c.file("dns.kubeconfig"), "coredns", masters); err != nil {
		return err
	}
	return c.issueClient("kubelet-client", "kube-apiserver", masters)
}

// KubeconfigIn is the administrator's file of the cluster that keeps everything in dir.
func KubeconfigIn(dir string) string { return filepath.Join(dir, "admin.kubeconfig") }

// masters is the group that may do everything.
const masters = "system:masters"

func (c *Cluster) writeKubeconfigFor(path, user string, groups ...string) error {
	config, err := c.ConfigFor(user, groups...)
	if err != nil {
		return err
	}
	return WriteKubeconfig(path, config)
}

// issueClient makes the files pki/NAME.crt and pki/NAME.key of a user.
func (c *Cluster) issueClient(name, user string, groups ...string) error {
	cert, key, err := c.ca.IssueTo(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file("pki", name+".crt"), cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.file("pki", name+".key"), key, 0o600)
}

// ConfigFor is the configuration of a client that is a user of these groups. Nobody has to know
// the user: what it may do is what RBAC says of the name.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	if c.state == nil { // somebody else's, whose keys we have not
		config := rest.CopyConfig(c.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return config, nil
	}
	cert, key, err := c.ca.IssueTo(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return nil, err
	}
	config := c.anonymous()
	config.CertData, config.KeyData = cert, key
	return config, nil
}

// ServiceAccountConfig is the configuration of a client that is a ServiceAccount, as its pods are.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{}}
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.anonymous()
	config.BearerToken = token.Status.Token
	return config, nil
}

// anonymous reaches the API server and is nobody. Requests are not held back.
func (c *Cluster) anonymous() *rest.Config {
	if c.state == nil {
		return rest.AnonymousClientConfig(c.Config)
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(c.address, c.apiPort),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.PEM},
		QPS:             -1,
	}
}

// WriteKubeconfig writes what a configuration says into a file for kubectl and other programs.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "druid-test"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

package operator

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/internal/operator/webhook"
	"druid.internal/druid/internal/operator/webhook/certs"
)

// CertificatesName is that of the Secret with the certificates of the webhook, in the namespace of the Lease.
const CertificatesName = "etcd-druid-webhook"

// protect serves the webhook. Without a directory of certificates the operator makes its own.
func protect(mgr manager.Manager, cfg config.Config, log *slog.Logger) error {
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	webhook.Setup(mgr, cfg.Webhooks.EtcdComponentProtection, log)
	if !cfg.OwnCertificates() {
		return nil
	}
	server, ok := mgr.GetWebhookServer().(*webhookserver.DefaultServer)
	if !ok {
		return fmt.Errorf("a webhook server of type %T takes no certificates", mgr.GetWebhookServer())
	}
	secret := types.NamespacedName{Namespace: cfg.LeaderElection.ResourceNamespace, Name: CertificatesName}
	serving := certs.NewServing(secret, mgr.GetAPIReader(), certs.Usual.Look, log)
	server.Options.TLSOpts = append(server.Options.TLSOpts, func(c *tls.Config) { c.GetCertificate = serving.GetCertificate })
	keeper := certs.NewKeeper(secret, webhook.ConfigurationName, mgr.GetAPIReader(), mgr.GetClient(), certs.Usual, log)
	for _, r := range []manager.Runnable{certs.NewFirst(keeper), serving, keeper} {
		if err := mgr.Add(r); err != nil {
			return err
		}
	}
	return nil
}

// ProtectionAccess is what the operator must be allowed to do in the whole cluster, besides [Access], if
// it makes the certificates of its webhook.
func ProtectionAccess() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{admissionregistrationv1.GroupName}, Resources: []string{"validatingwebhookconfigurations"},
		ResourceNames: []string{webhook.ConfigurationName}, Verbs: []string{"get", "update"},
	}}
}

// ProtectionOwnAccess is the same in the namespace of its Lease, besides [OwnAccess]. Reading and making
// Secrets is in [Access].
func ProtectionOwnAccess() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{CertificatesName}, Verbs: []string{"update"},
	}}
}

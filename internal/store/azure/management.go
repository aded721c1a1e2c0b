package azure

import (
	"context"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"

	"druid.internal/druid/internal/backup/immutability"
)

// management asks Azure Resource Manager how account and container are set up. It is slow and
// meters its callers, so answers count for a while: what they decide is when to ask the store
// for a deletion, which it refuses by its own knowledge.
type management struct {
	group      string
	account    string
	container  string
	containers *armstorage.BlobContainersClient
	services   *armstorage.BlobServicesClient
	accounts   *armstorage.AccountsClient
	classify   func(ctx context.Context, err error) error

	mu   sync.Mutex
	last answer
	at   time.Time
}

// managementCache is how long an answer counts.
const managementCache = time.Minute

// answer is what the management API tells. Each part is missing where it was refused.
type answer struct {
	mode         immutability.Mode
	period       time.Duration
	policy, hold bool
	versionLevel bool
	versions     bool
	extensions   int
	softDelete   time.Duration
	err          error
}

func newManagement(o Options, c *client) (*management, error) {
	opts := &arm.ClientOptions{ClientOptions: c.options, DisableRPRegistration: true}
	opts.PerCallPolicies = nil
	opts.Cloud = o.cloud()
	if o.Management.Endpoint != "" {
		conf := opts.Cloud.Services[cloud.ResourceManager]
		conf.Endpoint = o.Management.Endpoint
		opts.Cloud = cloud.Configuration{
			ActiveDirectoryAuthorityHost: opts.Cloud.ActiveDirectoryAuthorityHost,
			Services:                     map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: conf},
		}
	}
	factory, err := armstorage.NewClientFactory(o.Management.Subscription, c.manager, opts)
	if err != nil {
		return nil, err
	}
	where := o
	where.Endpoint = "the management API"
	s := &Store{opts: where, client: c}
	return &management{
		group: o.Management.ResourceGroup, account: o.Account, container: o.Container,
		containers: factory.NewBlobContainersClient(), services: factory.NewBlobServicesClient(), accounts: factory.NewAccountsClient(),
		classify: s.classify,
	}, nil
}

// read adds what the management API tells to p.
func (m *management) read(ctx context.Context, p *protection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) > managementCache || m.last.err != nil {
		m.last, m.at = m.ask(ctx), time.Now()
	}
	a := m.last
	if p.why = a.err; a.err != nil {
		return
	}
	p.managed = true
	p.policy, p.hold = p.policy || a.policy, p.hold || a.hold
	p.versionLevel = p.versionLevel || a.versionLevel
	p.versions, p.mode, p.period = a.versions, a.mode, a.period
	p.extensions, p.softDelete = a.extensions, a.softDelete
}

func (m *management) ask(ctx context.Context) (a answer) {
	service, err := m.services.GetServiceProperties(ctx, m.group, m.account, nil)
	if err == nil && service.BlobServiceProperties.BlobServiceProperties != nil {
		props := service.BlobServiceProperties.BlobServiceProperties
		a.versions = value(props.IsVersioningEnabled)
		if d := props.DeleteRetentionPolicy; d != nil && value(d.Enabled) {
			a.softDelete = time.Duration(value(d.Days)) * day
		}
	} else if err != nil {
		a.err = m.classify(ctx, err)
		return a
	}
	got, err := m.containers.Get(ctx, m.group, m.account, m.container, nil)
	if err != nil || got.ContainerProperties == nil {
		a.err = m.classify(ctx, err)
		return a
	}
	props := got.ContainerProperties
	a.hold = value(props.HasLegalHold)
	a.versionLevel = props.ImmutableStorageWithVersioning != nil && value(props.ImmutableStorageWithVersioning.Enabled)
	if value(props.HasImmutabilityPolicy) && props.ImmutabilityPolicy != nil {
		for _, h := range props.ImmutabilityPolicy.UpdateHistory {
			if h != nil && value(h.Update) == armstorage.ImmutabilityPolicyUpdateTypeExtend {
				a.extensions++
			}
		}
		if props := props.ImmutabilityPolicy.Properties; props != nil {
			a.set(string(value(props.State)), value(props.ImmutabilityPeriodSinceCreationInDays))
		}
		return a
	}
	if a.versionLevel {
		a.err = m.accountDefault(ctx, &a)
	}
	return a
}

// accountDefault reads the lock that the account gives to versions whose container has none.
func (m *management) accountDefault(ctx context.Context, a *answer) error {
	got, err := m.accounts.GetProperties(ctx, m.group, m.account, nil)
	if err != nil {
		return m.classify(ctx, err)
	}
	if got.Properties == nil || got.Properties.ImmutableStorageWithVersioning == nil {
		return nil
	}
	if p := got.Properties.ImmutableStorageWithVersioning.ImmutabilityPolicy; p != nil && value(p.State) != armstorage.AccountImmutabilityPolicyStateDisabled {
		a.set(string(value(p.State)), value(p.ImmutabilityPeriodSinceCreationInDays))
	}
	return nil
}

func (a *answer) set(state string, days int32) {
	a.mode, a.period, a.policy = modeOf(state), time.Duration(days)*day, true
}

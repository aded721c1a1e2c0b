package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"druid.internal/druid/test/sites"
)

// account is somebody's real account at a provider, with the bucket of one run in it.
type account struct {
	example string // the file of examples/ for it
	way     sites.Way
	create  func(context.Context) error // the bucket
	remove  func(context.Context) error // with all that is in it
}

// The steps of a run. deploy and undeploy are of a cluster, see clusterAskedFor.
var accountSteps = []string{"setup", "deploy", "test", "undeploy", "cleanup"}

// accounts are by the names of PROVIDERS: the variables they need, and how they are made of those.
var accounts = map[string]struct {
	variables []string
	of        func(getenv func(string) string, bucket string) (account, error)
}{
	"aws":   {[]string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}, awsAccount},
	"azure": {[]string{"STORAGE_ACCOUNT", "STORAGE_KEY"}, azureAccount},
	"gcp":   {[]string{"GCP_SERVICEACCOUNT_JSON_PATH", "GCP_PROJECT_ID"}, gcpAccount},
	"local": {nil, localAccount},
}

var testID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,50}[a-z0-9]$`)

// askedFor reads PROVIDERS, STEPS, TEST_ID and the credentials. What is missing for what is asked is an error that
// names all of it: nobody shall believe that an account was tried.
func askedFor(getenv func(string) string) (of map[string]account, steps []string, err error) {
	var wrong []error
	providers := slices.DeleteFunc(strings.Split(getenv("PROVIDERS"), ","), func(p string) bool { return p == "" })
	if slices.Contains(providers, "all") {
		providers = slices.Sorted(maps.Keys(accounts))
	}
	steps = slices.DeleteFunc(strings.Split(getenv("STEPS"), ","), func(s string) bool { return s == "" })
	if len(steps) == 0 || slices.Contains(steps, "all") {
		steps = accountSteps
	}
	for _, s := range steps {
		if !slices.Contains(accountSteps, s) {
			wrong = append(wrong, fmt.Errorf("STEPS: %q is none of all, %s", s, strings.Join(accountSteps, ", ")))
		}
	}
	id := getenv("TEST_ID")
	if !testID.MatchString(id) {
		wrong = append(wrong, fmt.Errorf("TEST_ID is %q: it names the bucket, and has 3 to 52 lower-case letters, digits and hyphens", id))
	}
	of = map[string]account{}
	for _, p := range providers {
		known, ok := accounts[p]
		if !ok {
			wrong = append(wrong, fmt.Errorf("PROVIDERS: %q is none of all, %s", p, strings.Join(slices.Sorted(maps.Keys(accounts)), ", ")))
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(known.variables), func(v string) bool { return getenv(v) != "" })
		if len(missing) > 0 {
			wrong = append(wrong, fmt.Errorf("PROVIDERS asks for %s, and %s is not set", p, strings.Join(missing, ", ")))
			continue
		}
		a, err := known.of(getenv, id)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", p, err))
		}
		of[p] = a
	}
	return of, steps, errors.Join(wrong...)
}

func awsAccount(getenv func(string) string, bucket string) (account, error) {
	id, secret, region := getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_REGION")
	a := account{example: "s3.yaml", way: sites.Way{Provider: "S3", Container: bucket, Variable: "AWS_APPLICATION_CREDENTIALS",
		Files: map[string]string{"accessKeyID": id, "secretAccessKey": secret, "region": region}}}
	o := s3.Options{Region: region, Credentials: credentials.NewStaticCredentialsProvider(id, secret, "")}
	if endpoint := getenv("AWS_ENDPOINT_URL_S3"); endpoint != "" { // a server that speaks S3 instead of Amazon's own
		o.BaseEndpoint, o.UsePathStyle = &endpoint, true
		a.way.Endpoint, a.way.Files["s3ForcePathStyle"] = endpoint, "true"
		if file := getenv("SSL_CERT_FILE"); file != "" {
			authority, err := os.ReadFile(file)
			if err != nil {
				return a, fmt.Errorf("SSL_CERT_FILE: %w", err)
			}
			a.way.Files[sites.CAFile] = string(authority)
		}
	}
	client := s3.New(o)
	a.create = func(ctx context.Context) error {
		in := &s3.CreateBucketInput{Bucket: &bucket}
		if region != "us-east-1" {
			in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
		}
		_, err := client.CreateBucket(ctx, in)
		return err
	}
	a.remove = func(ctx context.Context) error {
		for pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &bucket}); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, object := range page.Contents {
				if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: object.Key}); err != nil {
					return err
				}
			}
		}
		_, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: aws.String(bucket)})
		return err
	}
	return a, nil
}

func azureAccount(getenv func(string) string, bucket string) (account, error) {
	name, key := getenv("STORAGE_ACCOUNT"), getenv("STORAGE_KEY")
	a := account{example: "abs.yaml", way: sites.Way{Provider: "ABS", Container: bucket, Variable: "AZURE_APPLICATION_CREDENTIALS",
		Files: map[string]string{"storageAccount": name, "storageKey": key}}}
	shared, err := azblob.NewSharedKeyCredential(name, key)
	if err != nil {
		return a, err
	}
	client, err := azblob.NewClientWithSharedKeyCredential("https://"+name+".blob.core.windows.net/", shared, nil)
	if err != nil {
		return a, err
	}
	a.create = func(ctx context.Context) error { _, err := client.CreateContainer(ctx, bucket, nil); return err }
	a.remove = func(ctx context.Context) error { _, err := client.DeleteContainer(ctx, bucket, nil); return err }
	return a, nil
}

func gcpAccount(getenv func(string) string, bucket string) (account, error) {
	const file = "serviceaccount.json"
	key, err := os.ReadFile(getenv("GCP_SERVICEACCOUNT_JSON_PATH"))
	if err != nil {
		return account{}, fmt.Errorf("GCP_SERVICEACCOUNT_JSON_PATH: %w", err)
	}
	a := account{example: "gcs.yaml", way: sites.Way{Provider: "GCS", Container: bucket, Variable: "GOOGLE_APPLICATION_CREDENTIALS", File: file,
		Files: map[string]string{file: string(key)}}}
	with := func(ctx context.Context, do func(*storage.BucketHandle) error) error {
		client, err := storage.NewClient(ctx, option.WithAuthCredentialsJSON(option.ServiceAccount, key))
		if err != nil {
			return err
		}
		defer client.Close()
		return do(client.Bucket(bucket))
	}
	a.create = func(ctx context.Context) error {
		return with(ctx, func(b *storage.BucketHandle) error { return b.Create(ctx, getenv("GCP_PROJECT_ID"), nil) })
	}
	a.remove = func(ctx context.Context) error {
		return with(ctx, func(b *storage.BucketHandle) error {
			for all := b.Objects(ctx, nil); ; {
				object, err := all.Next()
				if errors.Is(err, iterator.Done) {
					return b.Delete(ctx)
				}
				if err == nil {
					err = b.Object(object.Name).Delete(ctx)
				}
				if err != nil {
					return err
				}
			}
		})
	}
	return a, nil
}

func localAccount(getenv func(string) string, bucket string) (account, error) {
	if getenv("KUBECONFIG") != "" { // the operator has the node make the directory, and nobody here gets at it
		nothing := func(context.Context) error { return nil }
		return account{example: "local.yaml", way: sites.Way{Provider: "Local", Container: bucket}, create: nothing, remove: nothing}, nil
	}
	dir, err := os.MkdirTemp("", bucket+"-*")
	return account{example: "local.yaml", way: sites.Way{Provider: "Local", Container: dir},
		create: func(context.Context) error { return nil },
		remove: func(context.Context) error { return os.RemoveAll(dir) },
	}, err
}

// TestWhatIsMissingForARealAccountIsNamed: asking for an account without what it needs fails.
func TestWhatIsMissingForARealAccountIsNamed(t *testing.T) {
	for phrase, c := range map[string]struct {
		env  map[string]string
		says []string
	}{
		"everything":           {map[string]string{"PROVIDERS": "all", "TEST_ID": "run-1"}, []string{"asks for aws, and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION", "STORAGE_ACCOUNT, STORAGE_KEY", "GCP_SERVICEACCOUNT_JSON_PATH, GCP_PROJECT_ID"}},
		"one of three":         {map[string]string{"PROVIDERS": "aws", "TEST_ID": "run-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, []string{"and AWS_REGION is not set"}},
		"no id":                {map[string]string{"PROVIDERS": "aws"}, []string{`TEST_ID is ""`}},
		"an unknown provider":  {map[string]string{"PROVIDERS": "aws,ibm", "TEST_ID": "run-1"}, []string{`"ibm" is none of all, aws, azure, gcp, local`}},
		"an unknown step":      {map[string]string{"PROVIDERS": "aws", "TEST_ID": "run-1", "STEPS": "setup,tests"}, []string{`"tests" is none of all, setup`}},
		"a file that is not":   {map[string]string{"PROVIDERS": "gcp", "TEST_ID": "run-1", "GCP_SERVICEACCOUNT_JSON_PATH": "/nowhere", "GCP_PROJECT_ID": "p"}, []string{"GCP_SERVICEACCOUNT_JSON_PATH: open /nowhere"}},
		"a key that is no key": {map[string]string{"PROVIDERS": "azure", "TEST_ID": "run-1", "STORAGE_ACCOUNT": "a", "STORAGE_KEY": "%"}, []string{"azure: "}},
		"a step of a cluster":  {map[string]string{"PROVIDERS": "local", "TEST_ID": "run-1", "STEPS": "deploy,test"}, []string{"STEPS asks for deploy, and KUBECONFIG is not set"}},
		"no image":             {map[string]string{"PROVIDERS": "local", "TEST_ID": "run-1", "KUBECONFIG": "/admin.conf"}, []string{"asks for deploy, and IMAGE is not set"}},
		"a cluster from here":  {map[string]string{"PROVIDERS": "local", "TEST_ID": "run-1", "KUBECONFIG": "admin.conf", "IMAGE": "druid:v1"}, []string{`KUBECONFIG is "admin.conf"`}},
	} {
		t.Run(phrase, func(t *testing.T) {
			getenv := func(name string) string { return c.env[name] }
			_, steps, err := askedFor(getenv)
			_, _, clusterErr := clusterAskedFor(getenv, steps)
			err = errors.Join(err, clusterErr)
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

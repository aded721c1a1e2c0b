package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/stores"
)

// chosen is the moment to return to.
var chosen struct {
	time     time.Time
	revision int64
	keys     keyValues
}

func (d *demo) disaster() error {
	if err := d.uploaded(); err != nil {
		return err
	}
	chosen.time, chosen.revision = time.Now(), d.history.Last()
	chosen.keys = d.history.At(chosen.revision)
	say("%s: revision %d, %d keys", chosen.time.UTC().Format(time.RFC3339Nano), chosen.revision, len(chosen.keys))
	if err := d.write(200); err != nil {
		return err
	}
	r, err := d.client.Delete(d.ctx, "/registry/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	say("a bad script deletes %d keys at revision %d", r.Deleted, r.Header.Revision)
	if err := d.write(50); err != nil {
		return err
	}
	if err := d.uploaded(); err != nil {
		return err
	}
	say("and the backup has faithfully stored that, too: revision %d", d.history.Last())
	return nil
}

func (d *demo) attack() error {
	c := d.s3()
	versions, err := c.ListObjectVersions(d.ctx, &s3.ListObjectVersionsInput{Bucket: str(bucket), Prefix: str(prefix + "/v2/Full-")})
	if err != nil {
		return err
	}
	if len(versions.Versions) == 0 {
		return fmt.Errorf("no full snapshot in the bucket")
	}
	v := versions.Versions[0]
	_, err = c.DeleteObject(d.ctx, &s3.DeleteObjectInput{Bucket: str(bucket), Key: v.Key, VersionId: v.VersionId})
	if err == nil {
		return fmt.Errorf("delete %s: %w", *v.Key, errNotRefused)
	}
	say("delete the version of %s:", filepath.Base(*v.Key))
	say("  \x1b[32mrefused\x1b[0m: %s", lastClause(err))
	if _, err := c.DeleteObject(d.ctx, &s3.DeleteObjectInput{Bucket: str(bucket), Key: v.Key}); err != nil {
		return err
	}
	say("delete it without naming a version: the store leaves a delete marker that hides it from ordinary tools")
	if _, err := c.PutObject(d.ctx, &s3.PutObjectInput{Bucket: str(bucket), Key: v.Key, Body: strings.NewReader("ransom note")}); err != nil {
		return err
	}
	say("and upload a ransom note under its name")
	return d.show([]string{"list"})
}

func lastClause(err error) string {
	parts := strings.Split(err.Error(), ": ")
	return parts[len(parts)-1]
}

func (d *demo) lose() error {
	d.etcd.Kill()
	say("etcd: killed")
	if err := d.snapshotter.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	d.snapshotter.Wait()
	say("etcdbrctl snapshot: stopped")
	if err := os.RemoveAll(d.etcd.DataDir()); err != nil {
		return err
	}
	say("rm -rf %s", filepath.Base(d.etcd.DataDir()))
	return nil
}

func (d *demo) restored() string { return filepath.Join(d.dir, "restored") }

func (d *demo) restore() error {
	return d.show([]string{"restore"}, "--data-dir="+d.restored(), "--to-time="+chosen.time.UTC().Format(time.RFC3339Nano), "--keep-history",
		"--name=default", "--initial-cluster=default=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380")
}

func (d *demo) prove() error {
	e, err := stores.StartEtcd(d.ctx, stores.EtcdOptions{DataDir: d.restored(), Flags: []string{"--initial-cluster-state=existing"}})
	if err != nil {
		return fmt.Errorf("a real etcd does not start on the restored directory: %w", err)
	}
	defer e.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	got, rev, err := history.Read(d.ctx, c, 0)
	if err != nil {
		return err
	}
	say("a real etcd %s serves the restored directory", stores.EtcdVersion)
	say("revision  %6d   wanted %6d", rev, chosen.revision)
	say("keys      %6d   wanted %6d", len(got), len(chosen.keys))
	if rev != chosen.revision {
		return fmt.Errorf("wrong revision")
	}
	if diff := history.Diff(got, chosen.keys); len(diff) > 0 {
		return fmt.Errorf("the key spaces differ:\n  %s", strings.Join(diff, "\n  "))
	}
	say("every key: value, create and mod revision, version and lease are equal")
	older := rev / 2
	got, _, err = history.Read(d.ctx, c, older)
	if err != nil {
		return err
	}
	if diff := history.Diff(got, d.history.At(older)); len(diff) > 0 {
		return fmt.Errorf("the key spaces at revision %d differ:\n  %s", older, strings.Join(diff, "\n  "))
	}
	say("and so are the %d keys of revision %d: the history came back, too", len(got), older)
	r, err := c.Put(d.ctx, "/registry/after", "the restore")
	if err != nil {
		return err
	}
	say("it accepts writes: revision %d", r.Header.Revision)
	return nil
}

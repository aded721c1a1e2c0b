package oss

import (
	"net/http"
	"net/url"
	"strings"
)

// grant is the remedy for a request that was refused: the action that it needs, which the service
// does not name. target is the method and URL of the request.
func grant(target string) string {
	action := "the action"
	method, raw, _ := strings.Cut(target, " ")
	if u, err := url.Parse(raw); err == nil && method != "" {
		action = actionOf(method, u)
	}
	return "grant " + action + " to this identity (docs/operations/permissions.md lists what each role needs)"
}

// actionOf is the action that a request needs.
func actionOf(method string, u *url.URL) string {
	q := u.Query()
	version := ""
	if q.Has("versionId") {
		version = "Version"
	}
	switch {
	case q.Has("versions"):
		return "oss:ListObjectVersions on the bucket"
	case q.Has("versioning"):
		return "oss:GetBucketVersioning on the bucket"
	case q.Has("worm"), q.Has("wormId"), q.Has("wormExtend"):
		return "oss:GetBucketWorm on the bucket (the provisioner also oss:InitiateBucketWorm, oss:CompleteBucketWorm and oss:ExtendBucketWorm)"
	case q.Has("tagging") && method == http.MethodGet:
		return "oss:GetObject" + version + "Tagging"
	case q.Has("tagging"):
		return "oss:PutObject" + version + "Tagging"
	case method == http.MethodDelete && q.Has("uploadId"):
		return "oss:AbortMultipartUpload"
	case method == http.MethodDelete:
		return "oss:DeleteObject" + version
	case method == http.MethodPut, method == http.MethodPost:
		return "oss:PutObject"
	}
	return "oss:GetObject" + version
}

package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
)

// answer refuses in a server's or a proxy's place.
func answer(status int, code, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
		} else {
			io.WriteString(w, message)
		}
	}
}

// Each refusal of an upload names its cause and the setting that ends it.
func TestRefusalsOfUploadsNameTheRemedy(t *testing.T) {
	const denied = "User is not authorized to perform: s3:PutObject on resource with an explicit deny in a resource-based policy"
	no := false
	cases := map[string]struct {
		answer http.HandlerFunc
		change func(*s3.Options)
		want   []string
		not    string
	}{
		"the policy denies what is not encrypted": {answer(403, "AccessDenied", denied), nil, []string{"serverSideEncryption", "--store-server-side-encryption", "AES256", "aws:kms"}, ""},
		"access is denied for no reason":          {answer(403, "AccessDenied", "Access Denied"), nil, []string{"grant s3:PutObject", "serverSideEncryption"}, ""},
		"the policy wants another encryption":     {answer(403, "AccessDenied", denied), func(o *s3.Options) { o.Encryption = "AES256" }, []string{"another serverSideEncryption than AES256", "kmsKeyID"}, ""},
		"the key is not granted":                  {answer(403, "AccessDenied", "not authorized to perform: kms:GenerateDataKey on this resource"), func(o *s3.Options) { o.Encryption = "aws:kms" }, []string{"grant kms:GenerateDataKey and kms:Decrypt"}, "s3:PutObject"},
		"the key is not there":                    {answer(400, "KMS.NotFoundException", "Invalid keyId"), func(o *s3.Options) { o.Encryption, o.KMSKeyID = "aws:kms", "x" }, []string{"check kmsKeyID"}, ""},
		"the server has no keys":                  {answer(501, "NotImplemented", "Server side encryption specified but KMS is not configured"), func(o *s3.Options) { o.Encryption = "AES256" }, []string{"remove serverSideEncryption"}, "conditionalPut"},
		"If-None-Match is not implemented":        {answer(501, "NotImplemented", "A header you provided implies functionality that is not implemented."), nil, []string{"set conditionalPut to false", "STORAGE_CONDITIONAL_PUT=false", "requestChecksumCalculation"}, ""},
		"the condition is not sent":               {answer(501, "NotImplemented", "A header"), func(o *s3.Options) { o.ConditionalPut, o.LegacyChecksums = &no, true }, nil, "conditionalPut"},
		"the checksum header is unknown":          {answer(400, "InvalidArgument", "Unsupported header x-amz-checksum-crc32"), nil, []string{"set requestChecksumCalculation to when_required"}, ""},
		"Content-MD5 is required":                 {answer(400, "InvalidRequest", "Missing required header for this request: Content-MD5"), nil, []string{"set requestChecksumCalculation to when_required"}, ""},
		"a trailer is unknown":                    {answer(501, "NotImplemented", "Transfering payloads with STREAMING-UNSIGNED-PAYLOAD-TRAILER is not implemented"), nil, []string{"set requestChecksumCalculation to when_required"}, "conditionalPut"},
		"a proxy limits bodies, in HTML":          {answer(413, "", "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>"), nil, []string{"proxy", "client_max_body_size", "proxy-body-size", "5242880 bytes"}, "raise --min-chunk-size"},
		"a proxy limits bodies, in text":          {answer(413, "", "Payload Too Large"), nil, []string{"proxy", "client_max_body_size"}, ""},
		"a proxy limits bodies, silently":         {answer(413, "", ""), nil, []string{"proxy", "client_max_body_size"}, ""},
		"the server takes smaller parts":          {answer(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size"), func(o *s3.Options) { o.PartSize = 64 << 20 }, []string{"lower --min-chunk-size", "67108864 bytes"}, "proxy"},
		"the server takes no part of S3":          {answer(413, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size"), nil, []string{"raise the server's limit"}, "raise --min-chunk-size"},
		"the server takes larger parts":           {answer(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed"), nil, []string{"raise --min-chunk-size"}, ""},
	}
	for name, c := range cases {
		for size, body := range map[string]int{"in one request": 1000, "in parts": part + 1} {
			t.Run(name+", "+size, func(t *testing.T) {
				f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && r.URL.Query().Has("uploads") && strings.Contains(name, "part") {
						accepting(w, r)
						return
					}
					if r.Method == http.MethodPut || r.Method == http.MethodPost {
						// The condition of an upload in parts is in its last request.
						if strings.Contains(name, "If-None-Match") && r.Header.Get("If-None-Match") == "" {
							accepting(w, r)
							return
						}
						if strings.Contains(name, "proxy") && r.ContentLength == 0 {
							accepting(w, r)
							return
						}
						c.answer(w, r)
						return
					}
					accepting(w, r)
				})
				o := f.options()
				if c.change != nil {
					c.change(&o)
				}
				_, err := f.open(t, o).Put(t.Context(), "key", onlyReader{bytes.NewReader(make([]byte, body))}, store.PutOptions{})
				if err == nil {
					t.Fatal("it was accepted")
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not contain %q", err, want)
					}
				}
				if c.not != "" && strings.Contains(err.Error(), c.not) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "<") {
					t.Errorf("%q contains %q, or is no single line of text", err, c.not)
				}
			})
		}
	}
}

// The encryption that is configured goes with each request that begins an object, and with no other.
func TestUploadsAndCopiesRequestEncryption(t *testing.T) {
	for name, size := range map[string]int{"in one request": 1000, "empty": 0, "in parts": part + 1, "a copy": -1} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodHead:
					w.Header().Set("Content-Length", "10")
					w.Header().Set("ETag", `"not-an-md5"`)
					w.Header().Set("X-Amz-Version-Id", "v0")
				case r.Header.Get("X-Amz-Copy-Source") != "":
					io.WriteString(w, `<CopyPartResult><ETag>"e"</ETag></CopyPartResult>`)
				default:
					accepting(w, r)
				}
			})
			o := f.options()
			o.Encryption, o.KMSKeyID = "aws:kms", "alias/backups"
			s := f.open(t, o)
			var err error
			if size < 0 {
				_, err = s.Copy(t.Context(), s, store.Version{Key: "from", ID: "v0"}, "to", store.PutOptions{})
			} else {
				_, err = s.Put(t.Context(), "key", onlyReader{bytes.NewReader(make([]byte, size))}, store.PutOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			began := 0
			for _, r := range f.sent() {
				begins := r.operation() == "CreateMultipartUpload" || r.operation() == "PutObject"
				if begins {
					began++
				}
				algorithm, key := r.header.Get("X-Amz-Server-Side-Encryption"), r.header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")
				if begins && (algorithm != "aws:kms" || key != "alias/backups") || !begins && algorithm+key != "" {
					t.Errorf("%s requests %q with the key %q", r.operation(), algorithm, key)
				}
			}
			if began != 1 {
				t.Errorf("the requests were %v", f.operations())
			}
		})
	}
}

// A lost answer is settled by the object's nonce: its ETag is no MD5 under KMS.
func TestALostAnswerIsSettledUnderKMS(t *testing.T) {
	var nonce string
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			nonce = r.Header.Get("X-Amz-Meta-Druid-Upload")
			panic(http.ErrAbortHandler)
		case r.URL.Query().Has("versions"):
			io.WriteString(w, `<ListVersionsResult><Version><Key>key</Key><VersionId>v1</VersionId><IsLatest>true</IsLatest><ETag>"opaque"</ETag><Size>4</Size></Version></ListVersionsResult>`)
		default:
			w.Header().Set("ETag", `"opaque"`)
			w.Header().Set("X-Amz-Server-Side-Encryption", "aws:kms")
			w.Header().Set("X-Amz-Meta-Druid-Upload", nonce)
		}
	})
	o := f.options()
	o.Encryption = "aws:kms"
	got, err := f.open(t, o).Put(t.Context(), "key", strings.NewReader("body"), store.PutOptions{})
	if err != nil || got.ID != "v1" {
		t.Errorf("Put = %+v, %v", got, err)
	}
}

func TestImpossibleEncryptionIsRefused(t *testing.T) {
	for want, change := range map[string]func(*s3.Options){
		"kmsKeyID is given without":    func(o *s3.Options) { o.KMSKeyID = "k" },
		"\"aes\" is unknown":           func(o *s3.Options) { o.Encryption = "aes" },
		"takes no key":                 func(o *s3.Options) { o.Encryption, o.KMSKeyID = "AES256", "k" },
		"both sseCustomerKey and serv": func(o *s3.Options) { o.Encryption, o.CustomerKey = "AES256", strings.Repeat("k", 32) },
	} {
		o := s3.Options{Bucket: "backups", Endpoint: "https://127.0.0.1:1", Keys: someKeys}
		change(&o)
		if _, err := s3.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A server that does not know the newer checksums refuses reads as well; no version is missing.
func TestARefusedChecksumModeIsNoMissingVersion(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		answer(400, "InvalidArgument", "Unsupported header x-amz-checksum-mode")(w, r)
	})
	_, err := f.open(t, f.options()).Open(t.Context(), store.Version{Key: "key", ID: "v1"}, 0, -1)
	if errors.Is(err, store.ErrNotFound) || err == nil || !strings.Contains(err.Error(), "set requestChecksumCalculation") {
		t.Errorf("Open = %v, want the setting", err)
	}
}

// What a server refuses without naming it is named by the operation.
func TestARefusalNamesTheMissingAction(t *testing.T) {
	v := store.Version{Key: "key", ID: "v1"}
	cases := map[string]struct {
		refused func(*http.Request) bool
		do      func(*s3.Store) error
	}{
		"s3:ListBucketVersions": {func(r *http.Request) bool { return r.URL.Query().Has("versions") }, func(s *s3.Store) error { return s.List(t.Context(), "p", func(store.Object) error { return nil }) }},
		"s3:GetObjectVersion":   {func(r *http.Request) bool { return r.Method == http.MethodHead }, func(s *s3.Store) error { _, err := s.Stat(t.Context(), v); return err }},
		"s3:PutObjectTagging":   {func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Has("tagging") }, func(s *s3.Store) error { return s.SetTag(t.Context(), v, "a", "b") }},
		"s3:GetObjectTagging":   {func(r *http.Request) bool { return r.URL.Query().Has("tagging") }, func(s *s3.Store) error { return s.SetTag(t.Context(), v, "a", "b") }},
		"s3:PutObjectLegalHold": {func(r *http.Request) bool { return r.URL.Query().Has("legal-hold") }, func(s *s3.Store) error { return s.SetHold(t.Context(), v, true) }},
		"s3:DeleteObjectVersion": {func(r *http.Request) bool { return r.Method == http.MethodDelete }, func(s *s3.Store) error {
			return s.Delete(t.Context(), v)
		}},
	}
	for want, c := range cases {
		t.Run(want, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case c.refused(r):
					refuse(w, http.StatusForbidden, "AccessDenied")
				case r.URL.Query().Has("tagging"):
					io.WriteString(w, "<Tagging><TagSet/></Tagging>")
				case r.URL.Query().Has("retention"):
					refuse(w, http.StatusNotFound, "NoSuchObjectLockConfiguration")
				}
			})
			f.locks = true
			err := c.do(f.open(t, f.options()))
			if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want it to name %s", err, want)
			}
		})
	}
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// compressionFlags say how what is written is packed.
type compressionFlags struct {
	on     bool
	policy string
	given  func() bool
}

func (f *compressionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "compress-snapshots", true, "pack what is written")
	flags.StringVar(&f.policy, "compression-policy", "zstd", "how: zstd, gzip, lzw or zlib; the original cannot read zstd")
	f.given = func() bool { return flags.Changed("compression-policy") || flags.Changed("compress-snapshots") }
}

// build is the compression of fulls, and of deltas in the JSON form, when deltas are written in format.
func (f *compressionFlags) build(format codec.Format) (snapshot.Compression, error) {
	if !f.on {
		return snapshot.None, nil
	}
	if format == codec.V2JSON && !f.given() {
		return snapshot.Gzip, nil // whoever asks for the original's format wants it to read the fulls, too
	}
	c, known := map[string]snapshot.Compression{
		"zstd": snapshot.Zstd, "gzip": snapshot.Gzip, "zlib": snapshot.Zlib, "lzw": snapshot.LZW, "none": snapshot.None,
	}[f.policy]
	if !known {
		return "", &usageError{fmt.Errorf("--compression-policy %q is none of zstd, gzip, lzw, zlib, none", f.policy)}
	}
	return c, nil
}

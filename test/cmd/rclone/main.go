// Command rclone is the real `rclone serve s3` with the local file system and nothing else
// behind it, for the tests that must notice that it ignores object lock. It is a module of its
// own, so that its dependencies (an S3 server's, a web server's) meet nobody else's, and it is
// a fifth of the whole program's size and a tenth of its building time. Tests run it as a
// process and never link it.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve"
	_ "github.com/rclone/rclone/cmd/serve/s3"
)

func main() { cmd.Main() }

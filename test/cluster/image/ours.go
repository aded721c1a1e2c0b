package image

import "path/filepath"

// WriteOurs makes the image of our programs under a name, of what make build put into bin.
func WriteOurs(file, name, bin string) error {
	system, err := System()
	if err != nil {
		return err
	}
	spec := Spec{Name: name, Files: system}
	for _, program := range []string{"etcd-druid", "etcdbrctl", "etcd-wrapper"} {
		spec.Files = append(spec.Files, File{Path: "/usr/local/bin/" + program, Source: filepath.Join(bin, program)})
	}
	return Write(file, spec)
}

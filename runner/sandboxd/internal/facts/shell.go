package facts

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// DefaultPath is the search path where the image sets none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var shellFolders = "/bin:/usr/bin:/usr/local/bin:/busybox"

// Shell finds bash, else sh, on the search path and in the usual folders; "" when the image has none.
func Shell(searchPath string) string {
	folders := strings.Split(searchPath+":"+shellFolders, ":")
	for _, name := range []string{"bash", "sh"} {
		for _, folder := range folders {
			path := filepath.Join(folder, name)
			if filepath.IsAbs(path) && isProgram(path) {
				return path
			}
		}
	}
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	const executable = 1
	return err == nil && info.Mode().IsRegular() && syscall.Access(path, executable) == nil
}

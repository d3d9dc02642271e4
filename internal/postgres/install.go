package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// noMainCluster keeps Debian's package from making and starting a service
// cluster that nobody asked for. It is removed after the installation.
const (
	noMainCluster     = "create_main_cluster = false\n"
	noMainClusterFile = "/etc/postgresql-common/createcluster.d/weir.conf"
)

// Install installs the server programs on Debian and Ubuntu, as root, without a
// service cluster. Elsewhere it changes nothing and says what to do.
func Install(ctx context.Context, log io.Writer) error {
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		return errors.New("install Postgres: only done on Debian and Ubuntu: use this system's package manager, or set WEIR_POSTGRES_BIN to the folder of initdb")
	}
	if os.Geteuid() != 0 {
		return errors.New("install Postgres: needs root: run `sudo apt-get install postgresql`")
	}
	if err := installWithApt(ctx, log, noMainClusterFile); err != nil {
		return fmt.Errorf("install Postgres: %w", err)
	}
	return nil
}

func installWithApt(ctx context.Context, log io.Writer, configFile string) (err error) {
	if err := os.MkdirAll(filepath.Dir(configFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(configFile, []byte(noMainCluster), 0o644); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(configFile)) }()
	for _, args := range [][]string{
		{"update"},
		{"install", "--yes", "--no-install-recommends", "postgresql"},
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck [URL]",
		Short: "Ask the relay on this machine whether it is ready and gets on",
		Long: `Ask the relay that listens on http.listen whether it is ready, and whether it gets on with
what it has to do, or ask URL. It is for images without a shell and curl.`,
		Example: `  HEALTHCHECK CMD ["/weir", "healthcheck"]`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, urls []string) error {
			if len(urls) == 0 {
				settings, err := a.config()
				if err != nil {
					return err
				}
				host, err := dialable(settings.HTTP.Listen)
				if err != nil {
					return err
				}
				urls = []string{"http://" + host + "/readyz", "http://" + host + "/healthz"}
			}
			for _, url := range urls {
				if err := ask(c.Context(), url); err != nil {
					return err
				}
			}
			return a.emit(map[string]any{"healthy": true}, func(w io.Writer) { fmt.Fprintln(w, "ok") })
		},
	}
}

// dialable is the address at which a listener on listen is reached from this machine.
func dialable(listen string) (string, error) {
	if listen == "off" || listen == "" {
		return "", usagef("http.listen is off: a relay that doesn't listen can't be asked; give it an address such as 127.0.0.1:9464")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", usagef("http.listen: %v", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

// ask answers nil where url says that all is well, else what it says.
func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: it is this machine
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: nobody answers there; is it running, with the same http.listen?", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", url, resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

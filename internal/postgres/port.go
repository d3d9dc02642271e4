package postgres

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Below the range from which kernels take ports for outgoing connections, so
// that the port is still ours after a restart.
const firstPort, lastPort = 20_000, 32_000

// FreePort is a loopback TCP port that nobody listens on.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if portIsFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free TCP port on 127.0.0.1 from 20000 to 32000: stop what is using them")
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

package relay_test

import (
	"testing"

	"github.com/weir-relay/weir/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

//go:build !torch && !frameworks

package integration

import "time"

// limit is what a wait may take: far beyond what it takes, on a machine that does other things too.
const limit = 45 * time.Second

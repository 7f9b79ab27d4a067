//go:build !torch && !frameworks

package integration

import "time"

// limit is the limit of each wait. It is far above the usual time, for busy machines.
const limit = 45 * time.Second

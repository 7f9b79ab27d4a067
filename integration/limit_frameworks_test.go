//go:build torch || frameworks

package integration

import "time"

// limit is the limit of each wait. It is far above the usual time, for busy machines. There the
// import of a framework alone takes half a minute.
const limit = 4 * time.Minute

package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/launch"
)

// A node that registers again interrupts the pre-hook of the earlier start. That is not a failure
// of the pre-hook, after which the node would leave.
func TestInterruptedPreHookIsNoFailure(t *testing.T) {
	t.Parallel()
	var h preHookRun
	h.interrupt() // none runs
	began, result := make(chan struct{}), make(chan error, 1)
	dir := t.TempDir()
	go func() {
		ctx, end := h.begin(t.Context())
		defer end()
		close(began)
		result <- launch.RunHook(ctx,
			launch.Hook{Command: "sleep 1000", Limit: time.Hour, Dir: dir, Log: dir + "/log"}, "generation 2")
	}()
	<-began
	h.interrupt()
	err := <-result
	if _, failed := errors.AsType[*launch.HookFailed](err); failed || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ctx, end := h.begin(t.Context())
	defer end()
	if ctx.Err() != nil {
		t.Error("the next one is interrupted, too")
	}
}

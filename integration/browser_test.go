package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a real Chromium.
type browser struct {
	t   testing.TB
	ctx context.Context
	end func() // closes it; the end of the test does so, too
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox)
	for _, flag := range []string{"disable-gpu", "disable-quic", "no-first-run",
		"disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, shut := chromedp.NewContext(ctx)
	t.Cleanup(shut)
	b := &browser{t, ctx, func() { shut(); end() }}
	b.do(chromedp.EmulateViewport(1360, 900))
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text returns the text that the page shows.
func (b *browser) text() string {
	b.t.Helper()
	return eval[string](b, "document.body.innerText")
}

// shows waits until the page shows all texts.
func (b *browser) shows(texts ...string) {
	b.t.Helper()
	until(b.t, fmt.Sprintf("the page shows %q", texts), func() error {
		shown := b.text()
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return fmt.Errorf("%q is not in:\n%s", text, tail(shown))
			}
		}
		return nil
	})
}

// picture saves what is seen into the directory PICTURES, if that is set.
func (b *browser) picture(name, scheme string) {
	b.t.Helper()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		b.t.Fatal(err)
	}
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), shot, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

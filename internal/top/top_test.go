package top_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/internal/top"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// An error of the terminal is returned. A user who quits, or interrupts the command, sees none.
func TestHowItEnds(t *testing.T) {
	p := page.New(page.Config{Source: memory.New().Client("top")})
	defer p.Close()
	broken := errors.New("the terminal is gone")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		in   io.Reader
		want error
	}{
		"a broken terminal": {t.Context(), iotest.ErrReader(broken), broken},
		"q":                 {t.Context(), strings.NewReader("q"), nil},
		"interrupted":       {interrupted, strings.NewReader(""), nil},
	} {
		err := top.Run(c.ctx, top.Config{Page: p, In: c.in, Out: &bytes.Buffer{}})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
